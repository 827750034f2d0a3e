"""Rigid bodies in a tree of joints, from the files in which robots are described."""

from jaxhamel.multibody._files._mjcf import read_mjcf as read_mjcf
from jaxhamel.multibody._files._urdf import read_urdf as read_urdf
from jaxhamel.multibody._files._xml import RobotFileError as RobotFileError
from jaxhamel.multibody._tree import MultibodyTree as MultibodyTree
