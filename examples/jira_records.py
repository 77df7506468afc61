"""Change a CSV file of Jira to records: python examples/jira_records.py issues.csv > records.csv"""

import csv
import sys
import uuid
from pathlib import Path

KINDS = {"Epic": "epic", "Story": "user_story", "Task": "requirement", "Sub-task": "acceptance_criteria"}
STATUSES = {"To Do": "Backlog", "In Progress": "In Progress", "Done": "Done"}  # of epics and user stories
REQUIREMENTS = {"To Do": "Draft", "In Progress": "Draft", "Done": "Active"}
PRIORITIES = {"Highest": 1, "High": 2, "Medium": 3, "Low": 4}
COLUMNS = ["kind", "id", "title", "description", "priority", "status", "parent"]

with Path(sys.argv[1]).open(newline="", encoding="utf-8") as file:
    issues = list(csv.DictReader(file))  # of a repeated column, such as Labels, it keeps the last
keys = {name: issue["Issue key"] for issue in issues for name in (issue["Issue key"], issue["Issue id"])}
ids = {name: str(uuid.uuid5(uuid.NAMESPACE_URL, f"jira:{key}")) for name, key in keys.items()} | {"": ""}
records = csv.DictWriter(sys.stdout, COLUMNS)
records.writeheader()
for issue in (one for one in issues if one["Issue Type"] in KINDS):
    kind = KINDS[issue["Issue Type"]]
    record: dict[str, object] = {
        "kind": kind,
        "id": ids[issue["Issue key"]],
        "title": issue["Summary"],
        "parent": ids[issue["Parent"]],
    }
    if kind != "acceptance_criteria":
        statuses = REQUIREMENTS if kind == "requirement" else STATUSES
        record |= {
            "description": issue["Description"],
            "priority": PRIORITIES[issue["Priority"]],
            "status": statuses[issue["Status"]],
        }
    records.writerow(record)
