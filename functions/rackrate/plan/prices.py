"""Prices from AWS's Price List API, with a dated table as fallback.

GetProducts of the Price List Query API returns one JSON text for each product, with its attributes
and terms. The API has endpoints in three Regions, and each serves the prices of all Regions (AWS
Billing user guide, "Using the AWS Price List Query API",
https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-list-query-api.html). An estimate
must not fail or wait for prices. In a VPC without internet access, for a role without permission,
or in a partition without the API, it uses the table's prices. Every price names its source.
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

#: The Regions of the API's endpoints. Each endpoint has the prices of all Regions.
ENDPOINT_REGIONS = ("us-east-1", "eu-central-1", "ap-south-1")
#: Prices are optional, so an unreachable API must not delay a plan by more than a few seconds.
CLIENT_CONFIG = Config(
    connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2}
)
API_SOURCE = "AWS Price List API"


@dataclass(frozen=True)
class Query:
    """A query for a price among the products of a service.

    Attributes:
        service: the service's code in the price list.
        attributes: the attributes to filter by, without the Region.
        usage_type: the pattern of the product's usage type. Usage types begin with a short name of
            the Region, but in us-east-1 only those of some services do.
        region_attribute: the attribute with the Region's code.
    """

    service: str
    attributes: tuple[tuple[str, str], ...]
    usage_type: str
    region_attribute: str = "regionCode"


@dataclass(frozen=True)
class Price:
    """A price in US dollars.

    Attributes:
        usd: the price of one unit; None when it is not known.
        source: its source and date.
        trouble: why it is not from the API; None when it is.
    """

    usd: float | None
    source: str
    trouble: str | None = None


def instance_hour(instance_type: str) -> Query:
    """The query for an hour of an on-demand instance: Linux, shared tenancy, no added software."""
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
#: AWS bills both sides: the sender for data leaving its zone, the receiver for data entering its.
CROSS_ZONE_GIGABYTE = Query(
    "AWSDataTransfer",
    (("transferType", "IntraRegion"),),
    r"(^|-)DataTransfer-Regional-Bytes$",
    "fromRegionCode",
)


@dataclass(frozen=True)
class DatedPrice:
    """A price of the dated table, for us-east-1.

    Attributes:
        usd: the price of one unit.
        date: the month of the source, or of reading it if it has no date; ISO 8601.
        source: AWS's price list with its version, or a page of AWS.
    """

    usd: float
    date: str
    source: str


#: AWS's Karpenter carries the prices that GetProducts answered for us-east-1 on 2026-02-09.
_KARPENTER = (
    "https://github.com/aws/karpenter-provider-aws/blob/265ee0b/"
    "pkg/providers/pricing/zz_generated.pricing_aws.go"
)
_KARPENTER_HOURS = {
    "c5.large": 0.085,
    "c5.xlarge": 0.17,
    "c5.2xlarge": 0.34,
    "c5.4xlarge": 0.68,
    "c5.9xlarge": 1.53,
    "c5.12xlarge": 2.04,
    "c5.18xlarge": 3.06,
    "c5.24xlarge": 4.08,
    "c5n.large": 0.108,
    "c5n.18xlarge": 3.888,
    "c6in.large": 0.1134,
    "c6in.8xlarge": 1.8144,
    "c6in.32xlarge": 7.2576,
    "c7gn.large": 0.1248,
    "m7i.large": 0.1008,
}
_EC2 = "price list AmazonEC2/20260320042925"
_EKS = "price list AmazonEKS/20260831092157"
_LAMBDA = "price list AWSLambda/20260717075216"
_STEP_FUNCTIONS = "https://aws.amazon.com/step-functions/pricing/"
_TRANSFER = "price list AWSDataTransfer/20260831121448"

#: The table has prices of us-east-1 only, because prices of other Regions cannot be derived from
#: them. They come from AWS itself: from versions of the price list (`offer code/version`, below
#: https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/), from a project of AWS that records the
#: API's answers, or from a page. A page's prices that are called examples do not count.
#: The API is authoritative, and every line of an estimate names which of the two it uses.
FALLBACK_REGION = "us-east-1"
FALLBACK: Mapping[Query, DatedPrice] = {
    **{
        instance_hour(name): DatedPrice(usd, "2026-02", _KARPENTER)
        for name, usd in _KARPENTER_HOURS.items()
    },
    instance_hour("m5.large"): DatedPrice(0.096, "2026-03", _EC2),
    CLUSTER_HOUR: DatedPrice(0.10, "2026-08", _EKS),
    STATE_TRANSITION: DatedPrice(0.000025, "2026-11", _STEP_FUNCTIONS),
    LAMBDA_REQUEST: DatedPrice(0.0000002, "2026-07", _LAMBDA),
    LAMBDA_GIGABYTE_SECOND: DatedPrice(0.0000166667, "2026-07", _LAMBDA),
    CROSS_ZONE_GIGABYTE: DatedPrice(0.01, "2026-08", _TRANSFER),
}

#: Errors of the API that concern only one query, so that the next query may succeed.
_ONE_QUERY = frozenset({"InvalidParameterException", "NotFoundException"})


def endpoint_region(region: str) -> str:
    """The Region of the API endpoint nearest to a Region, judged by the Region's name."""
    continents = {"eu": "eu-central-1", "il": "eu-central-1", "me": "eu-central-1"}
    continents |= {"af": "eu-central-1", "ap": "ap-south-1"}
    return continents.get(region.split("-")[0], "us-east-1")


def client(session: Any, region: str) -> Any:
    """A client of the Price List API with short timeouts and few retries."""
    return session.client("pricing", region_name=endpoint_region(region), config=CLIENT_CONFIG)


#: Prices that were found. A function's process is short-lived, so they do not expire.
_known: dict[tuple[Query, str], Price] = {}


def forget() -> None:
    """Clear the cache of prices."""
    _known.clear()


def prices(queries: Iterable[Query], *, region: str, pricing: Any | None) -> dict[Query, Price]:
    """Look up a price for each query. Each process asks the API once per price, and never fails.

    Args:
        queries: the prices to look up.
        region: the Region whose prices apply.
        pricing: a client of the API, or None to use the table.

    Returns:
        A price for every query; the amount is None where neither the API nor the table has one.
    """
    by_query: dict[Query, Price] = {}
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
        by_query[query] = price
    return by_query


def _ask(pricing: Any, query: Query, region: str) -> tuple[Price, bool]:
    """The API's price or the table's, and whether the next query would meet the same trouble."""
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
    attributes = (*query.attributes, (query.region_attribute, region))
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in attributes]
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode=query.service, Filters=filters, FormatVersion="aws_v1"
    )
    return [json.loads(text) for page in pages for text in page["PriceList"]]


def find_amount(products: Sequence[Mapping[str, Any]], query: Query) -> float | None:
    """The on-demand price of one unit of the matching products, in the first tier that is not free.

    Free tiers apply to an account and a month, not to a run, so a tier with price zero is skipped.

    Args:
        products: the products that GetProducts returned, parsed from JSON.
        query: the query, which has the usage type to match.

    Returns:
        US dollars for one unit; None when no product matches, or several with different prices.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: a product has an unknown format.
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
    """The price of the dated table, marked with its Region and why it is not from the API.

    Args:
        query: the price to look up.
        region: the Region whose prices apply.
        why: why the API gave no price.
    """
    figure = FALLBACK.get(query)
    if figure is None:
        return Price(None, "unknown", why)
    elsewhere = "" if region == FALLBACK_REGION else f" ({region} may differ)"
    source = f"{FALLBACK_REGION} price of {figure.date}{elsewhere}, {figure.source}"
    return Price(figure.usd, source, why)
