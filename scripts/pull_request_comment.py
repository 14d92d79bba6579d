"""Put the summary of a run into this job's own comment on a pull request (action.yml).

Every workflow of a repository comments as the same bot. So the comment begins with a mark, which
names the workflow, the job, the stack, and the file of the plan or campaign. Somebody else can copy
the mark, but not be the author.

Environment: TOKEN; NUMBER of the pull request; SUMMARY, the file; the inputs as INPUT_STACK,
INPUT_PLAN and INPUT_CAMPAIGN; and what GitHub's runner sets.
"""

import hashlib
import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

_MARKED = ("GITHUB_WORKFLOW", "GITHUB_JOB", "INPUT_STACK", "INPUT_PLAN", "INPUT_CAMPAIGN")
_COMMENTS = """query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    id comments(first: 100, after: $after) {
      nodes { id body viewerDidAuthor } pageInfo { hasNextPage endCursor } } } } }"""
_EDIT = """mutation($id: ID!, $body: String!) {
  updateIssueComment(input: {id: $id, body: $body}) { clientMutationId } }"""
_ADD = """mutation($id: ID!, $body: String!) {
  addComment(input: {subjectId: $id, body: $body}) { clientMutationId } }"""


def ask(query: str, **variables: Any) -> Any:
    """The data of an answer of GitHub's GraphQL API. Exits with GitHub's reason if it refuses."""
    request = urllib.request.Request(
        os.environ["GITHUB_GRAPHQL_URL"],
        json.dumps({"query": query, "variables": variables}).encode(),
        {"Authorization": f"Bearer {os.environ['TOKEN']}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            result = json.load(response)
    except (OSError, ValueError) as error:
        result = {"errors": [{"message": str(error)}]}
    if result.get("errors"):
        reason = " ".join(str(result["errors"][0]["message"]).split())
        sys.exit(f"GitHub refused the comment, which needs pull-requests: write: {reason}")
    return result["data"]


def main() -> None:
    """Edit the comment with this job's mark, or add one."""
    parts = json.dumps([os.environ[name] for name in _MARKED])
    mark = f"<!-- rackrate: {hashlib.sha256(parts.encode()).hexdigest()} -->"
    body = f"{mark}\n{Path(os.environ['SUMMARY']).read_text('utf-8', 'replace')}"
    owner, name = os.environ["GITHUB_REPOSITORY"].split("/")
    number = int(os.environ["NUMBER"])
    page: dict[str, Any] = {"hasNextPage": True, "endCursor": None}
    while page["hasNextPage"]:
        data = ask(_COMMENTS, owner=owner, name=name, number=number, after=page["endCursor"])
        request = data["repository"]["pullRequest"]
        for comment in request["comments"]["nodes"]:
            if comment["viewerDidAuthor"] and comment["body"].startswith(mark):
                ask(_EDIT, id=comment["id"], body=body)
                return
        page = request["comments"]["pageInfo"]
    ask(_ADD, id=request["id"], body=body)


if __name__ == "__main__":
    main()
