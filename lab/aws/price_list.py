"""The AWS Price List API: GetProducts, for the prices of us-east-1 that docs/cost.md documents.

The page names AWS's source of each. A product has one tier of price, the first that costs, because
the page has no other. All Regions share the API's three endpoints, which have the same products.
Source of the form: AWS Billing user guide, "Reading the service price list file",
https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/bulk-api-reading-price-list-files.html.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from moto.core.responses import ActionResult, BaseResponse

from lab.aws.account import REGION
from lab.aws.api_errors import ApiError

#: The API's name in the lab, and the hosts of its endpoints. moto does not have this API.
NAME, HOSTS = "pricing", re.compile(r"https?://pricing\.")

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "cost.md"
_ROW = re.compile(r"^\| ([^|]+) \| ([\d.]+) \| \d{4}-\d\d \|", re.MULTILINE)
_INSTANCE = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}
#: The products that the page describes in words, each with its service.
_OTHERS: Mapping[str, tuple[str, dict[str, str]]] = {
    "an hour of an EKS cluster": ("AmazonEKS", {"usagetype": "USE1-AmazonEKS-Hours:perCluster"}),
    "a state transition": ("AmazonStates", {"usagetype": "USE1-StateTransition"}),
    "a request to a function": (
        "AWSLambda",
        {"usagetype": "Request", "group": "AWS-Lambda-Requests"},
    ),
    "a GB-second of a function, x86": (
        "AWSLambda",
        {"usagetype": "Lambda-GB-Second", "group": "AWS-Lambda-Duration"},
    ),
    "a GB between zones, each side": (
        "AWSDataTransfer",
        {
            "usagetype": "DataTransfer-Regional-Bytes",
            "transferType": "IntraRegion",
            "fromRegionCode": REGION,
        },
    ),
}


class PriceListResponse(BaseResponse):
    """Answers one request."""

    def __init__(self) -> None:
        super().__init__(service_name=NAME)
        self.automated_parameter_parsing = True

    def get_products(self) -> ActionResult:
        service, filters = self._get_param("ServiceCode"), self._get_param("Filters", [])
        if any(each["Type"] != "TERM_MATCH" for each in filters):
            message = "The lab's price list knows filters of the type TERM_MATCH only"
            raise ApiError("InvalidParameterException", message)
        matching = [
            _in_json(attributes, usd)
            for attributes, usd in _products()
            if attributes["servicecode"] == service
            and all(attributes.get(each["Field"]) == each["Value"] for each in filters)
        ]
        return ActionResult({"FormatVersion": "aws_v1", "PriceList": matching})


def _products() -> Iterator[tuple[dict[str, str], str]]:
    """Each product's attributes and the price of one unit in US dollars."""
    for what, usd in _ROW.findall(_PAGE.read_text("utf-8")):
        if what.startswith("`"):
            kind = what.strip("`")
            own = {**_INSTANCE, "instanceType": kind, "usagetype": f"BoxUsage:{kind}"}
            service = "AmazonEC2"
        else:
            service, own = _OTHERS[what]
        place = {} if "fromRegionCode" in own else {"regionCode": REGION}
        yield {"servicecode": service, **own, **place}, usd


def _in_json(attributes: Mapping[str, str], usd: str) -> str:
    """A product in the format `aws_v1`, with its on-demand price."""
    price = {"beginRange": "0", "endRange": "Inf", "pricePerUnit": {"USD": usd}}
    offer = {"priceDimensions": {"first": price}}
    terms = {"OnDemand": {"only": offer}}
    service = attributes["servicecode"]
    return json.dumps(
        {"serviceCode": service, "product": {"attributes": attributes}, "terms": terms}
    )
