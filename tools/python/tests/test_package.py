"""What the wheel says of itself."""

import importlib.metadata
import re
import unittest
from pathlib import Path

import wattgate

ROOT = Path(__file__).resolve().parents[3]


class Package(unittest.TestCase):
    """The installed package."""

    def test_its_version_is_that_of_the_project(self) -> None:
        found = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
        assert found
        self.assertEqual(importlib.metadata.version("wattgate"), found[1])

    def test_it_is_typed_licensed_and_needs_nothing(self) -> None:
        files = importlib.metadata.files("wattgate") or []
        names = {file.name for file in files}
        self.assertLessEqual({"py.typed", "LICENSE-MIT", "LICENSE-APACHE"}, names)
        self.assertIsNone(importlib.metadata.requires("wattgate"))
        self.assertNotIn(str(ROOT / "tools/python/src"), str(Path(wattgate.__file__)))


if __name__ == "__main__":
    unittest.main()
