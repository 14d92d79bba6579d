"""Follow a campaign, print how it ended, store its files, and determine the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Refusal
from ..printing.answers import print_answers
from ..printing.campaign_estimate import print_campaign_estimate
from ..printing.comparison import print_differences
from ..printing.failures import failure_of
from ..printing.output import Output
from ..printing.progress import (
    Late,
    Left,
    describe_campaign,
    missing_of,
    pace_of,
    part_of,
)
from ..reading import files
from ..reading.campaigns import Campaign
from ..reading.documents import read_campaign, read_campaign_estimate
from ..reading.kinds import CAMPAIGN, RUN
from ..reading.requirements import Requirement, about_verdicts
from ..reading.runs import Run
from ..reading.stack import Outcome, Stack
from .outcome import (
    AtEnd,
    Stored,
    checks_of,
    complain_of_unmet,
    read_stored,
    record_of,
    report_end,
)
from .watch import Followed

if TYPE_CHECKING:
    from rackrate_contract.campaign import CampaignResults
    from rackrate_contract.estimates import EstimatedCampaign


class FollowedCampaign(Followed[Campaign]):
    """A campaign that a watch follows, with the run of the step that is going on."""

    kind = CAMPAIGN

    def __init__(self, stack: Stack, campaign_id: str) -> None:
        super().__init__(stack, campaign_id)
        self.run: Run | None = None
        """The run of the step that is going on, if it has begun."""
        self._warned = False

    def read(self) -> Campaign | None:
        """The campaign's record; reads that of its run, too."""
        campaign = self.stack.record(CAMPAIGN, self.id)
        run_id = None if campaign is None or campaign.is_over else campaign.step_run_id
        self.run = None if run_id is None else self.stack.record(RUN, run_id)
        if campaign is not None and not (campaign.is_over or self._warned):
            self._news += [f"Warning: {warning}" for warning in campaign.warnings]
            self._warned = True
        if self.run is not None:
            self._news += self._losses.since_last_look(self.run)
        return campaign

    def planned_run(self, record: Campaign) -> str | None:
        """The run of the step that is going on, once its plan is made."""
        return self.run.id if self.run is not None and self.run.blocks else None

    def check(self, requirements: Sequence[Requirement], run_id: str) -> None:
        """Check those requirements that are about a run."""
        super().check(about_verdicts(requirements), run_id)

    def describe(self, record: Campaign, elapsed: float) -> tuple[str, Left | Late | None]:
        """The step, its run's block, and the dollars so far."""
        run = ""
        if self.run is not None and not self.run.is_over:
            run = self.run.phase or self.run.status
            if self.run.block > 0 and self.run.blocks > 0:
                run = part_of("block", pace_of(self.run))
                run += missing_of(self.run, run)
        left = None
        if not record.has_measured:
            left = self._left.estimate(record.pace, elapsed)
        return describe_campaign(record, run), left


type CampaignFiles = Stored[CampaignResults, EstimatedCampaign]


def files_of(stack: Stack, campaign_id: str, record: Campaign | None) -> CampaignFiles:
    """The files of a campaign. Raises Refusal when this command does not know their schema."""
    results = "campaign.json", read_campaign
    return read_stored(stack, f"campaigns/{campaign_id}", record, results, read_campaign_estimate)


def require_answers(campaign_id: str, stored: CampaignFiles) -> CampaignResults:
    """The campaign's results. Raises Refusal when it has none."""
    if stored.results is None:
        raise Refusal(
            f"Campaign {campaign_id} has no results; name one that measured, `rackrate campaign"
            " list` shows them."
        )
    if (kind := stored.results.campaign.kind) in ("sweep", "hunt"):
        raise Refusal(
            f"Campaign {campaign_id} is a {kind}, which has no answers; leave out --require."
        )
    return stored.results


def conclude_campaign(
    output: Output, stack: Stack, campaign_id: str, ended: Outcome[Campaign], at_end: AtEnd
) -> int:
    """Print how the campaign ended, store the wanted files, and return the exit code."""
    failure = failure_of(ended)
    stored = files_of(stack, campaign_id, ended.record)
    print_campaign(output, ended.record, stored)
    if at_end.requirements and failure is None:
        require_answers(campaign_id, stored)
    checks = checks_of(output, at_end.requirements, stored.results, failure)
    directory = _keep(output, stack, campaign_id, stored, at_end.out)
    code, error = report_end(output, ended, failure)
    output.document(
        {
            **stored.as_document(record_of(CAMPAIGN, campaign_id, ended.record), checks, error),
            "directory": None if directory is None else str(directory),
        }
    )
    unmet = complain_of_unmet(output, checks)
    return code or unmet


def print_campaign(output: Output, record: Campaign | None, stored: CampaignFiles) -> None:
    """Print the answers, with the differences of a pool first, or a dry run's estimate."""
    if stored.results is not None:
        if stored.results.campaign.kind == "pool":
            print_differences(output, stored.results.differences, "The newest run", "The others")
        print_answers(output.console, stored.results, verbose=output.is_verbose)
    elif record is not None and record.status == "dry_run":
        print_campaign_estimate(output.console, record, stored.estimate)
    elif record is not None and record.status == "skipped":
        output.say(record.conclusion or "")


def _keep(
    output: Output, stack: Stack, campaign_id: str, stored: CampaignFiles, out: Path | None
) -> Path | None:
    """Copy the files to `out`, if there are any. Returns the directory, and prints the page."""
    if stored.results is None and stored.plan is None:
        return None
    if out is None:
        output.line(f"Files: {stored.address}")
        return None
    runs = () if stored.results is None else stored.results.linked
    copies = files.download_campaign(stack, campaign_id, out, runs)
    page = next((copy for copy in copies if copy.name == files.PAGE), copies[0].parent)
    output.line(f"Results: {page}")
    return copies[0].parent
