"""The routes about loads that run by themselves; a caller sees and stops only his own."""

from __future__ import annotations

from omnigraph.server.answers import Answer, answer_json
from omnigraph.server.calls import Call
from omnigraph.server.routing import GRAPH, Body, Route
from omnigraph.wire.shapes import JobList


async def list_jobs(call: Call) -> Answer:
    """GET /graphs/{graph_id}/jobs"""
    output: JobList = {"jobs": call.means.jobs.list(graph_id=call.graph_id, actor=call.actor)}
    return answer_json(output)


async def show_job(call: Call) -> Answer:
    """GET /graphs/{graph_id}/jobs/{job_id}"""
    job_id = call.name("job_id")
    return answer_json(call.means.jobs.get(job_id, graph_id=call.graph_id, actor=call.actor))


async def cancel_job(call: Call) -> Answer:
    """DELETE /graphs/{graph_id}/jobs/{job_id}"""
    job_id = call.name("job_id")
    return answer_json(call.means.jobs.cancel(job_id, graph_id=call.graph_id, actor=call.actor))


ROUTES = (
    Route("GET", f"{GRAPH}/jobs", Body.NONE, 0, list_jobs),
    Route("GET", f"{GRAPH}/jobs/{{job_id}}", Body.NONE, 0, show_job),
    Route("DELETE", f"{GRAPH}/jobs/{{job_id}}", Body.NONE, 0, cancel_job),
)
