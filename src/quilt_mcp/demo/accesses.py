"""How often files and packages of the company were read, as the stack counts it from the account's logs."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

JSON = dict[str, object]
WORKING_DAYS = 5


def count_accesses(per_working_day: int, window: int) -> JSON:
    """Return the value of AccessCounts. The logs of the last day are those of yesterday."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [today - timedelta(days=back) for back in range(window, 0, -1)]
    counts = [(day, per_working_day if day.weekday() < WORKING_DAYS else 0) for day in days]
    return {
        "total": sum(value for _, value in counts),
        "counts": [{"date": day.isoformat(), "value": value} for day, value in counts],
    }


def count_by_extension(reads: Mapping[str, int], window: int, groups: int | None) -> list[JSON]:
    """Return the value of `byExt`: the extensions without the dot, the most read first, and then all others as ""."""
    sums = Counter[str]()
    for key, per_working_day in reads.items():
        sums[PurePosixPath(key).suffix.removeprefix(".").lower()] += per_working_day
    named = {ext: count for ext, count in sums.most_common() if ext}
    kept = dict(list(named.items())[:groups])
    if rest := sums.total() - sum(kept.values()):
        kept[""] = rest
    return [{"ext": ext, "counts": count_accesses(count, window)} for ext, count in kept.items()]
