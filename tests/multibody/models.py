"""Files of robots for the tests, and functions that read them."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import jaxhamel

ARM = """
<robot name="arm">
  <link name="tool"><inertial><origin xyz="0 0 .1" rpy=".1 .2 .3"/><mass value=".4"/>
    <inertia ixx=".01" iyy=".012" izz=".006" ixy=".001" ixz="0" iyz="0"/></inertial></link>
  <link name="base"><inertial><mass value="3"/>
    <inertia ixx=".1" iyy=".12" izz=".15" ixy=".01" ixz="0" iyz="0"/></inertial>
    <collision><geometry><sphere radius=".1"/></geometry></collision></link>
  <link name="upper"><inertial><origin xyz="0.3 0 .1" rpy=".4 .2 .3"/><mass value="1.4"/>
    <inertia ixx=".03" iyy=".04" izz=".05" ixy=".001" ixz="0" iyz="0"/></inertial></link>
  <link name="fore"><inertial><origin xyz="0.2 0 .1"/><mass value=".8"/>
    <inertia ixx=".01" iyy=".012" izz=".006" ixy=".001" ixz="0" iyz="0"/></inertial></link>
  <link name="finger"><inertial><origin xyz="0 .1 0"/><mass value=".1"/>
    <inertia ixx=".001" iyy=".001" izz=".001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="wrist" type="fixed"><parent link="fore"/><child link="tool"/>
    <origin xyz=".5 0 0" rpy="0 1.5707963267948966 0"/></joint>
  <joint name="grip" type="prismatic"><parent link="tool"/><child link="finger"/>
    <axis xyz="0 1 0"/>{mimic}</joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="fore"/>
    <origin xyz=".6 0 0" rpy="0.3 0 1"/><axis xyz="0 2 1"/><dynamics damping="{damping}" friction="{friction}"/></joint>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <origin xyz=".1 .2 .3" rpy="0 0 3.141592653589793"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="2" effort="30" velocity="4"/></joint>
</robot>
"""
MIMIC = '<mimic joint="elbow" multiplier="-.3" offset=".2"/>'

# a fixed body with a hinge, and a floating one with joints of all kinds
MANY_JOINTS = """
<mujoco model="many joints">
  <compiler angle="degree" eulerseq="XYz"/>
  <option gravity="0.3 0 -9.81"/>
  <default>
    <joint armature=".01" damping=".2"/>
    <geom density="500"/>
    <default class="arm">
      <joint axis="0 1 .2" armature="0.3"/>
      <geom type="capsule" size=".05 .2"/>
      <motor gear="3"/>
      <default class="hand"><joint type="slide" stiffness="30" springref=".2"/></default>
    </default>
  </default>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body name="rest" pos="3 2 1" euler="10 20 30">
      <geom size=".1"/>
      <body name="door" pos=".1 0 0">
        <joint name="door" pos=".1 .2 .3" ref="20" range="-90 90"/>
        <geom type="box" size=".1 .2 .3" pos=".1 0 0" euler="30 40 50"/>
      </body>
    </body>
    <body name="base" pos="0 .2 1" quat=".5 .5 -.5 .5" childclass="arm">
      <joint type="free" name="root" armature="0.2" damping="0.1"/>
      <geom type="ellipsoid" size=".1 .2 .3"/>
      <geom type="cylinder" fromto="0 0 0 .3 .2 .4" size=".03" mass=".4"/>
      <body name="a" pos=".3 0 0" xyaxes="0 1 0 1 0 0">
        <joint name="j1"/>
        <joint name="j2" axis="1 0 0" pos="0 0 .1"/>
        <geom pos="0 0 .2"/>
        <body name="b" pos="0 .2 .1" axisangle="1 2 3 40">
          <joint name="ball" type="ball" pos=".02 0 .1"/>
          <inertial pos=".1 0 0" mass=".7" fullinertia=".01 .02 .025 .001 .002 -.001"/>
          <body name="c" pos=".1 .1 0"><geom mass=".1"/></body>
          <body name="d" pos="0 0 .3" zaxis="1 1 1">
            <joint class="hand" name="grip" range="-.1 .3"/>
            <geom type="sphere" size=".1" class="main"/>
          </body>
        </body>
      </body>
      <body name="e" pos="-.3 0 0">
        <joint name="j3"/>
        <geom/>
        <geom type="box" size=".1 .1 .1" pos="0 0 .3" contype="0"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="j1" class="arm"/>
    <position joint="j3" kp="20" kv="2" ctrlrange="-1 1"/>
    <general joint="grip" gear="2" gainprm="3" biastype="affine" biasprm=".1 -.2 -.3"/>
    <velocity joint="door" kv="2"/>
  </actuator>
</mujoco>
"""


def arm(mimic: str = "", damping: float = 0.0, friction: float = 0.0) -> str:
    return ARM.format(mimic=mimic, damping=damping, friction=friction)


@cache
def urdf(text: str, **options) -> jaxhamel.MultibodyTree:
    """The robot of a URDF text."""
    return _read(jaxhamel.read_urdf, text, "robot.urdf", options)


@cache
def mjcf(text: str) -> jaxhamel.MultibodyTree:
    """The robot of an MJCF text."""
    return _read(jaxhamel.read_mjcf, text, "robot.xml", {})


def _read(read, text, name, options):
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text(text)
        return read(path, **options)
