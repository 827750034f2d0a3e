"""Attributes of MJCF files that are read, and those that change no motion; all others are refused.

Source: the reference of MJCF, and `mujoco.mj_printSchema` of MuJoCo 3.17.
"""

from jaxhamel.multibody._files._xml import XmlElement, nearest

_POSE = "pos quat axisangle xyaxes zaxis euler"
_CONTACT = "contype conaffinity condim priority friction solmix solref solimp margin gap adhesion surfacevel"
_ACTUATOR = "name class group joint gear ctrllimited ctrlrange forcelimited forcerange lengthrange interp user "
_ACTUATOR += "site slidersite tendon body"  # of actuators that act on no joint, which are refused
_ATTRIBUTES = {
    "compiler": "angle assetdir autolimits conflict coordinate discardvisual eulerseq fitaabb fusestatic inertiafromgeom "
    "inertiagrouprange meshdir passthrough savecanonical savecompiled saveinertial strippath texturedir usethread "
    "alignfree boundinertia boundmass settotalmass balanceinertia",
    "option": "ccd_iterations ccd_tolerance cone density gravity impratio integrator iterations jacobian ls_iterations "
    "ls_tolerance magnetic noslip_iterations noslip_tolerance o_friction o_margin o_solimp o_solref sdf_initpoints "
    "sdf_iterations sleep_tolerance solver timestep tolerance viscosity wind apirate mpr_iterations mpr_tolerance",
    "flag": "actuation autoreset clampctrl constraint contact damper diagexact energy equality eulerdamp filterparent "
    "frictionloss fwdinv gravity invdiscrete ipc island limit midphase multiccd nativeccd override refsafe sensor "
    "sleep spring warmstart",
    "body": f"name childclass mocap gravcomp user sleep {_POSE}",
    "inertial": f"mass diaginertia fullinertia {_POSE}",
    "joint": "name class type group pos axis springdamper stiffness springref ref range limited armature damping "
    "frictionloss actuatorfrclimited actuatorfrcrange actuatorgravcomp margin user solreflimit solimplimit "
    "solreffriction solimpfriction",
    "freejoint": "name group align",
    "geom": f"name class type group size fromto mass density shellinertia material rgba hfield mesh fitscale user "
    f"fluidshape fluidcoef {_CONTACT} {_POSE}",
    "motor": _ACTUATOR,
    "position": f"{_ACTUATOR} kp kv dampratio timeconst inheritrange",
    "velocity": f"{_ACTUATOR} kv",
    "general": f"{_ACTUATOR} actdim actearly actlimited actrange biasprm biastype dynprm dyntype gainprm gaintype "
    "inheritrange plugin",
}
# flags that turn off forces, and the attributes that give these
_FLAGS = {
    "spring": "stiffness",
    "damper": "damping",
    "frictionloss": "frictionloss",
    "constraint": "frictionloss",
}


def check_attributes(file: XmlElement) -> None:
    """Checks that every attribute of the elements that give bodies, joints and controls is read or changes no motion.

    **Raises:** `RobotFileError` with the element, the attribute, and a similar one.
    """
    for element in file.descendants():
        known = _ATTRIBUTES.get(element.tag)
        if known is not None:
            _check(element, known.split())


def check_flags(file: XmlElement) -> None:
    """Checks that no flag of `<option>` turns off forces that the file gives.

    **Raises:** `RobotFileError` with the flag and what it turns off.
    """
    for flag in (x for option in file.all("option") for x in option.all("flag")):
        if flag.text("sleep", "disable") == "enable":
            raise flag.error('has sleep="enable", which is not supported; remove it.')
        if _disables(flag, "actuation") and any([*section] for section in file.all("actuator")):
            raise flag.error('has actuation="disable" in a file with actuators; remove them.')
        for name, given in _FLAGS.items():
            if _disables(flag, name) and _is_given(file, given):
                raise flag.error(
                    f'has {name}="disable" in a file with {given}; remove one of them.'
                )


def _disables(flag: XmlElement, name: str) -> bool:
    return flag.text(name, "enable") == "disable"


def _is_given(file: XmlElement, name: str) -> bool:
    """Whether an element has this attribute, and not as a zero."""
    given = (element.text(name, "") for element in file.descendants())
    return any(text.strip(" 0.") for text in given)


def _check(element: XmlElement, known: list[str]) -> None:
    for name in element.attributes:
        if name not in known:
            raise element.error(
                f"has {name}, which is not supported; remove it.{nearest(name, known)}"
            )
