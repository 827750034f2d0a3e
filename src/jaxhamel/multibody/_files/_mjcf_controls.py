"""Actuators of an MJCF file, as controls that pull at hinges and slides."""

import numpy as np

from jaxhamel.multibody._files._descriptions import UNLIMITED, ControlDescription, JointDescription
from jaxhamel.multibody._files._mjcf_settings import ACTUATORS, MAIN, Settings
from jaxhamel.multibody._files._xml import XmlElement, nearest

NOT_SUPPORTED = (
    "dampratio",
    "timeconst",
    "inheritrange",
    "plugin",
    "actearly",
    "actdim",
    "actrange",
)


def controls_of(
    file: XmlElement, settings: Settings, joints: dict[str, JointDescription]
) -> list[ControlDescription]:
    """A control for each actuator; without any `<actuator>` a force or torque at each hinge and slide."""
    sections = file.all("actuator")
    if not sections:
        scalar = [x.name for x in joints.values() if x.kind in ("hinge", "slide")]
        return [ControlDescription(name, name) for name in scalar]
    elements = [element for section in sections for element in section]
    return [_control(element, settings, joints) for element in elements]


def _control(
    element: XmlElement, settings: Settings, joints: dict[str, JointDescription]
) -> ControlDescription:
    if element.tag not in ACTUATORS:
        raise element.error(
            f"is not supported; the actuators {', '.join(ACTUATORS)} at joints are. Remove it from <actuator>."
        )
    element = settings.with_defaults(element, MAIN, "actuator")
    for name in NOT_SUPPORTED:
        if name in element.attributes:
            raise element.error(f"has {name}, which is not supported.")
    if "joint" not in element.attributes:
        raise element.error("acts on no joint; an actuator must have the attribute joint.")
    joint = element.text("joint")
    if joint not in joints or joints[joint].kind not in ("hinge", "slide"):
        able = [x.name for x in joints.values() if x.kind in ("hinge", "slide")]
        raise element.error(
            f'has joint="{joint}", which is no hinge or slide of the file.{nearest(joint, able)}'
        )
    gain, bias = _law(element)
    gear = float(element.numbers("gear", None, (1.0,))[0])
    limits = limits_of(element, "ctrlrange", "ctrllimited", settings)
    return ControlDescription(element.text("name", joint), joint, gear, gain, bias, limits)


def _law(element: XmlElement) -> tuple[float, tuple[float, float, float]]:
    """The gain g and the bias b of the force g · control + b · (1, length, rate)."""
    if element.tag == "motor":
        return 1.0, (0.0, 0.0, 0.0)
    if element.tag == "position":
        kp, kv = element.not_negative("kp", 1.0), element.not_negative("kv")
        return kp, (0.0, -kp, -kv)
    if element.tag == "velocity":
        kv = element.not_negative("kv", 1.0)
        return kv, (0.0, 0.0, -kv)
    element.choice("dyntype", ("none",), "none")
    element.choice("gaintype", ("fixed",), "fixed")
    gain = float(element.numbers("gainprm", None, (1.0,))[0])
    if element.choice("biastype", ("none", "affine"), "none") == "none":
        return gain, (0.0, 0.0, 0.0)
    constant, length, rate = np.pad(element.numbers("biasprm", None, (0.0,)), (0, 3))[:3]
    return gain, (float(constant), float(length), float(rate))


def limits_of(
    element: XmlElement, name: str, switch: str, settings: Settings, angles: bool = False
) -> tuple[float, float]:
    """The range that the attribute `name` gives, if the attribute `switch` lets it limit."""
    limited = element.choice(switch, ("auto", "true", "false"), "auto")
    if name not in element.attributes or limited == "false":
        return UNLIMITED
    if limited == "auto" and not settings.limited:
        return UNLIMITED
    lower, upper = element.numbers(name, 2)
    if lower > upper:
        raise element.error(f'has {name}="{element.text(name)}"; lower must not exceed upper.')
    return (settings.angle(lower), settings.angle(upper)) if angles else (lower, upper)
