"""The page that `jaxhamel.report` writes of a planned control: the motion, the control, the limits, and the certificate."""

from typing import Any

from jaxhamel.control import Certificate, Result
from jaxhamel.simulate._results import in_words
from jaxhamel.viz._charts import distinct
from jaxhamel.viz._motion._page import parameters, view
from jaxhamel.viz._motion._plan_shown import plan_charts, shown_motion
from jaxhamel.viz._report import Report


def page_of_plan(result: Result, title: str) -> Report:
    """The content of the page of a result of `control.solve`."""
    run = shown_motion(result)
    shown = view(run)
    charts = [*plan_charts(result), *shown.charts]
    numbers = {k: x for k, x in result.to_dict().items() if k not in ("certificate", "status")}
    proved = {} if result.certificate is None else {"Certificate": proof(result.certificate)}
    return Report(
        title=title or type(run.system).__name__,
        lead=lead(result),
        scene=shown.scene,
        charts=distinct(charts),
        tiles=[*shown.tiles, *plan_tiles(result)],
        tables={
            **proved,
            "Reached": {k.replace("_", " "): v for k, v in {**shown.reached, **numbers}.items()},
            "Parameters": parameters(run.system),
        },
        warning=_warning(result),
    )


def plan_tiles(result: Result) -> tuple[tuple[str, str], ...]:
    """The cost and the number of iterations as pairs of texts (value, meaning)."""
    return ((f"{result.cost:.6g}", "cost J"), (str(len(result.history["cost"])), "iterations"))


def lead(result: Result) -> str:
    """The sentence under the heading: the cost, and whether a certificate of optimality holds."""
    certificate = result.certificate
    if certificate is None:
        return f"A control with cost J = {result.cost:.8g}, found by {len(result.history['cost'])} iterations."
    if not certificate.holds:
        return "The best control that was found; its certificate does not hold."
    return f"An optimal control with cost J = {result.cost:.8g}, a {certificate.second_order}: its certificate holds."


def proof(certificate: Certificate) -> dict[str, Any]:
    """The lines of the certificate as rows of a table."""
    lines = (line.strip().partition(":") for line in certificate.words.splitlines())
    return {name: value.strip() or "yes" for name, _, value in lines}


def _warning(result: Result) -> str:
    if not bool(result.trajectory.succeeded):
        return f"The simulation {in_words(result.trajectory.result, result.trajectory.t_end)}"
    certificate = result.certificate
    if certificate is None or certificate.holds:
        return "" if result.converged else f"No optimum was proved: {result.status}."
    reason = certificate.words.splitlines()[0].removeprefix("certificate: does NOT hold; ")
    return f"No optimum was proved: {reason}."
