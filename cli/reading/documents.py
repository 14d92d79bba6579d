"""Read the documents that a stack wrote. Whatever is wrong with one is a Refusal.

Pydantic takes longer to import than the command takes to start, so that the types of the contract
are imported when a document is read.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from ..errors import EXIT_FAILED, UNREADABLE, Refusal

if TYPE_CHECKING:
    from pydantic import ValidationError

    from rackrate_contract.campaign import CampaignResults
    from rackrate_contract.comparison import Comparison
    from rackrate_contract.document import Document
    from rackrate_contract.estimates import EstimatedCampaign, EstimatedRun
    from rackrate_contract.results import Results


def document_of(content: bytes | None) -> Any:
    """Read a JSON document to print it again. What JSON cannot express becomes null.

    Python's JSON reads NaN and the infinities, also out of `1e999`.
    """
    if content is None:
        return None
    return json.loads(content, parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float | None:
    return value if math.isfinite(value := float(text)) else None


def read_results(content: bytes, run_id: str) -> Results:
    """Read results.json."""
    from rackrate_contract.results import RESULTS, Results

    return _read(Results, content, "results.json", run_id, RESULTS)


def read_comparison(content: bytes, comparison_id: str) -> Comparison:
    """Read comparison.json."""
    from rackrate_contract.comparison import COMPARISON, Comparison

    return _read(Comparison, content, "comparison.json", comparison_id, COMPARISON)


def read_campaign(content: bytes, campaign_id: str) -> CampaignResults:
    """Read campaign.json."""
    from rackrate_contract.campaign import CAMPAIGN, CampaignResults

    return _read(CampaignResults, content, "campaign.json", campaign_id, CAMPAIGN)


def read_estimates(content: bytes, run_id: str) -> EstimatedRun:
    """Read the arms and the estimates of a run's plan.json."""
    from rackrate_contract.estimates import EstimatedRun

    return _read(EstimatedRun, content, "plan.json", run_id)


def read_campaign_estimate(content: bytes, campaign_id: str) -> EstimatedCampaign:
    """Read the estimate of a campaign's plan.json."""
    from rackrate_contract.estimates import EstimatedCampaign

    return _read(EstimatedCampaign, content, "plan.json", campaign_id)


def _read[D: Document](
    kind: type[D], content: bytes, file: str, name: str, schema: str | None = None
) -> D:
    """Read a file of a run, a comparison or a campaign.

    Args:
        kind: the type.
        content: the file's content.
        file: the file's name.
        name: whose it is.
        schema: the schema that it must have; None for a part of a file without a schema.
    """
    from pydantic import ValidationError

    try:
        return kind.read(content)
    except UNREADABLE as error:
        why = f"{type(error).__name__}: {error}"
        if isinstance(error, ValidationError):
            _check_schema(error, schema, name)
            first = error.errors()[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        problem = f"is not a complete {schema}" if schema else "holds no complete estimate"
        raise Refusal(
            f"The {file} of {name} {problem} ({why}); read it in the bucket.", EXIT_FAILED
        ) from error


def _check_schema(error: ValidationError, schema: str | None, name: str) -> None:
    """Raise Refusal when what cannot be read has another schema."""
    for each in error.errors():
        if each["loc"] == ("schema",) and each["type"] == "literal_error":
            raise Refusal(
                f'The results of {name} are "{each["input"]}" and this command reads "{schema}";'
                " use the rackrate that belongs to the stack."
            )
