"""What AWS charges: prices from the Price List API, with a dated table where it cannot be asked.

The Price List Query API answers GetProducts with one JSON text for each product, its attributes and
terms in it; it has endpoints in three Regions, whatever Region is asked about (AWS Billing user
guide, "Using the AWS Price List Query API",
https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-list-query-api.html). No estimate
may fail or wait because prices cannot be had: a run in a VPC without a way out, a role that may not
ask, or a partition without the API gets the table's prices, and every price says where it is from.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

#: The API's endpoints; each answers for all Regions.
ENDPOINT_REGIONS = ("us-east-1", "eu-central-1", "ap-south-1")
#: Prices are a convenience: an unreachable API may cost a plan a few seconds and no more.
CLIENT_CONFIG = Config(
    connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2}
)
API_SOURCE = "AWS Price List API"


@dataclass(frozen=True)
class Query:
    """How a price is found among the products of a service.

    Attributes:
        service: the service's code in the price list.
        attributes: what the API filters by; the Region is added.
        usage_type: what the product's usage type must match. Usage types begin with a short name of
            the Region everywhere but in us-east-1, and for some services there as well.
        region_attribute: the attribute that holds the Region's code.
    """

    service: str
    attributes: tuple[tuple[str, str], ...]
    usage_type: str
    region_attribute: str = "regionCode"


@dataclass(frozen=True)
class Price:
    """A price in US dollars.

    Attributes:
        usd: for one unit; None when it is not known.
        source: where it is from, and when.
        trouble: why it is not the API's; None when it is.
    """

    usd: float | None
    source: str
    trouble: str | None = None


def instance_hour(instance_type: str) -> Query:
    """An hour of an on-demand instance: Linux, shared hardware, nothing preinstalled."""
    return Query(
        "AmazonEC2",
        (
            ("instanceType", instance_type),
            ("operatingSystem", "Linux"),
            ("tenancy", "Shared"),
            ("preInstalledSw", "NA"),
            ("capacitystatus", "Used"),
        ),
        rf"(^|-)BoxUsage(:{re.escape(instance_type)})?$",
    )


CLUSTER_HOUR = Query("AmazonEKS", (), r"(^|-)AmazonEKS-Hours:perCluster$")
STATE_TRANSITION = Query("AmazonStates", (), r"(^|-)StateTransition$")
LAMBDA_REQUEST = Query("AWSLambda", (("group", "AWS-Lambda-Requests"),), r"(^|-)Request$")
LAMBDA_GIGABYTE_SECOND = Query(
    "AWSLambda", (("group", "AWS-Lambda-Duration"),), r"(^|-)Lambda-GB-Second$"
)
#: Billed to each side: to the sender as it leaves its zone, to the receiver as it comes into its.
CROSS_ZONE_GIGABYTE = Query(
    "AWSDataTransfer",
    (("transferType", "IntraRegion"),),
    r"(^|-)DataTransfer-Regional-Bytes$",
    "fromRegionCode",
)


@dataclass(frozen=True)
class DatedPrice:
    """A price of the dated table, of us-east-1.

    Attributes:
        usd: for one unit.
        date: when the source was published, or read where it does not say; ISO 8601.
        source: where it was read.
    """

    usd: float
    date: str
    source: str


_EC2 = "https://kindatechnical.com/aws-eks/lesson-31-understanding-eks-pricing.html"
_EC2_OF_AWS = (
    "https://docs.aws.amazon.com/autoscaling/ec2/userguide/"
    "weights-spot-price-per-unit-hour-example.html"
)
_EKS = "https://cloudburn.io/blog/amazon-eks-pricing"
_STEP_FUNCTIONS = "https://aws.amazon.com/step-functions/pricing/"
_LAMBDA = "https://docs.aws.amazon.com/whitepapers/latest/how-aws-pricing-works/lambda.html"
_LAMBDA_TIERS = "https://cloudchipr.com/blog/aws-lambda-pricing"
_TRANSFER = "price list AWSDataTransfer/20260720184645"

#: Only us-east-1: what other Regions charge is not guessed from it. These are what could be read of
#: public pages; the API is the authority, and every line of an estimate says which of both it has.
FALLBACK_REGION = "us-east-1"
FALLBACK: Mapping[Query, DatedPrice] = {
    instance_hour("c5.large"): DatedPrice(0.085, "2026-11", _EC2),
    instance_hour("c5.2xlarge"): DatedPrice(0.34, "2026-11", _EC2_OF_AWS),
    instance_hour("c5.4xlarge"): DatedPrice(0.68, "2026-11", _EC2_OF_AWS),
    instance_hour("c5.12xlarge"): DatedPrice(2.04, "2026-11", _EC2_OF_AWS),
    instance_hour("c5.18xlarge"): DatedPrice(3.06, "2026-11", _EC2_OF_AWS),
    instance_hour("c5.24xlarge"): DatedPrice(4.08, "2026-11", _EC2_OF_AWS),
    instance_hour("m5.large"): DatedPrice(0.096, "2026-11", _EC2),
    CLUSTER_HOUR: DatedPrice(0.10, "2026-03", _EKS),
    STATE_TRANSITION: DatedPrice(0.000025, "2026-11", _STEP_FUNCTIONS),
    LAMBDA_REQUEST: DatedPrice(0.0000002, "2026-11", _LAMBDA),
    LAMBDA_GIGABYTE_SECOND: DatedPrice(0.0000166667, "2024", _LAMBDA_TIERS),
    CROSS_ZONE_GIGABYTE: DatedPrice(0.01, "2026-07", _TRANSFER),
}

#: Errors of the API that are about one query and not about the next.
_ONE_QUERY = frozenset({"InvalidParameterException", "NotFoundException"})


def endpoint_region(region: str) -> str:
    """The Region whose endpoint of the API is nearest to a Region, by its name."""
    continents = {"eu": "eu-central-1", "il": "eu-central-1", "me": "eu-central-1"}
    continents |= {"af": "eu-central-1", "ap": "ap-south-1"}
    return continents.get(region.split("-")[0], "us-east-1")


def client(session: Any, region: str) -> Any:
    """A client of the Price List API that neither waits nor tries for long."""
    return session.client("pricing", region_name=endpoint_region(region), config=CLIENT_CONFIG)


#: Prices do not change while a function lives.
_known: dict[tuple[Query, str], Price] = {}


def forget() -> None:
    """Forgets every price that was found."""
    _known.clear()


def prices(queries: Iterable[Query], *, region: str, pricing: Any | None) -> dict[Query, Price]:
    """A price for each query, asked of the API once for each process; never fails.

    Args:
        queries: what to look up.
        region: the Region that charges.
        pricing: a client of the API, or None to use the table.

    Returns:
        A price for every query; its amount is None where neither API nor table knows one.
    """
    found: dict[Query, Price] = {}
    trouble = None if pricing is not None else "the API was not asked"
    for query in queries:
        price = _known.get((query, region))
        if price is None and trouble is not None:
            price = fallback(query, region, trouble)
        elif price is None:
            price, lasting = _ask(pricing, query, region)
            if price.trouble is None:
                _known[query, region] = price
            elif lasting:
                trouble = price.trouble
        found[query] = price
    return found


def _ask(pricing: Any, query: Query, region: str) -> tuple[Price, bool]:
    """The API's price, or the table's; and would it be the same with the next query?"""
    try:
        amount = find_amount(_products(pricing, query, region), query)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "an error")
        return fallback(query, region, f"the API answered {code}"), code not in _ONE_QUERY
    except BotoCoreError as error:
        why = f"the API could not be reached ({type(error).__name__})"
        return fallback(query, region, why), True
    except (ValueError, TypeError, KeyError, AttributeError):
        return fallback(query, region, "the API's answer could not be read"), False
    if amount is None:
        return fallback(query, region, "the API lists no such price, or several"), False
    return Price(amount, f"{API_SOURCE}, {region}"), False


def _products(pricing: Any, query: Query, region: str) -> list[Mapping[str, Any]]:
    wanted = (*query.attributes, (query.region_attribute, region))
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted]
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode=query.service, Filters=filters, FormatVersion="aws_v1"
    )
    return [json.loads(text) for page in pages for text in page["PriceList"]]


def find_amount(products: Sequence[Mapping[str, Any]], query: Query) -> float | None:
    """The on-demand price of one unit of the products that match; the first tier that costs.

    Free tiers are of an account and a month, not of a run, so a tier of zero is passed over.

    Args:
        products: GetProducts' answers, each read from its JSON.
        query: says which usage type is meant.

    Returns:
        US dollars for one unit, or None when no product matches or several do and differ.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: what the API never answers.
    """
    amounts = set()
    for product in products:
        usage_type = product["product"]["attributes"].get("usagetype", "")
        if not re.search(query.usage_type, usage_type):
            continue
        tiers = [
            (_number(tier.get("beginRange", "0")), _number(tier["pricePerUnit"]["USD"]))
            for offer in product.get("terms", {}).get("OnDemand", {}).values()
            for tier in offer["priceDimensions"].values()
            if "USD" in tier["pricePerUnit"]
        ]
        costing = [(begin, usd) for begin, usd in sorted(tiers) if usd > 0]
        if costing:
            amounts.add(costing[0][1])
    return amounts.pop() if len(amounts) == 1 else None


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{text} is no amount")
    return number


def fallback(query: Query, region: str, why: str) -> Price:
    """The price of the dated table, which says that it is none of the API's and of which Region.

    Args:
        query: what to look up.
        region: the Region that charges.
        why: why the API did not tell.
    """
    figure = FALLBACK.get(query)
    if figure is None:
        return Price(None, "unknown", why)
    elsewhere = "" if region == FALLBACK_REGION else f" ({region} may differ)"
    source = f"{FALLBACK_REGION} price of {figure.date}{elsewhere}, {figure.source}"
    return Price(figure.usd, source, why)
