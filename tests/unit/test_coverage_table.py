"""The table of coverage: a line for each room, the total last, then the files with too little."""

from __future__ import annotations

from scripts.coverage_table import PARTS, table


def counts(*of: int) -> dict[str, int]:
    return dict(zip(PARTS, of, strict=True))


def test_files_add_up_to_rooms_and_those_below_ninety_percent_are_named() -> None:
    files = {
        "functions/rackrate/tools/ping.py": counts(80, 80, 16, 20),
        "functions/rackrate/tools/iperf.py": counts(50, 80, 10, 20),
        "functions/rackrate/store.py": counts(10, 10, 0, 0),
        "functions/rackrate_text/__init__.py": counts(0, 0, 0, 0),
    }
    assert table(files).splitlines() == [
        "coverage of                lines  branches    share",
        "rackrate                      10         0   100.0%",
        "rackrate/tools               160        40    78.0%",
        "rackrate_text                  0         0   100.0%",
        "total                        170        40    79.0%",
        "below 90%: functions/rackrate/tools/iperf.py 60.0%",
    ]
