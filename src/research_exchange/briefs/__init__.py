"""Renders a run's brief: all that whoever carries out an experiment, person or agent, has to know (contract §4).

A brief is Markdown and a pure function of its input: the spec version with the context it was saved with, the run, the
launch mode, the computed feasibility check, and the profile of the service it runs on. The words are in `texts/`, one
file for each idea; the modules decide which of them a spec calls for.
"""

from research_exchange.briefs.brief import SECTIONS, Section, render_brief
from research_exchange.briefs.input import BriefInput
from research_exchange.briefs.profiles import PROFILE_NAMES, Header, ServiceProfile, service_profile

__all__ = [
    "PROFILE_NAMES",
    "SECTIONS",
    "BriefInput",
    "Header",
    "Section",
    "ServiceProfile",
    "render_brief",
    "service_profile",
]
