"""A run in one file: everything that its judgment can be recomputed from, anywhere and offline.

`bundle_chunks` writes a bundle, `verify` checks one, and `open_members` with `read_record` and `documents_of` read one.
A bundle is a zip file, or the folder that it unpacks to, and an RO-Crate.
"""

from research_exchange.bundles.build import BundleTooLarge, build, bundle_chunks, installed
from research_exchange.bundles.integrity import integrity_problems
from research_exchange.bundles.members import Contents, NotABundle, kept
from research_exchange.bundles.reading import contents_of, documents_of, open_members, read_record
from research_exchange.bundles.rejudging import JudgmentCheck, Standing, recheck
from research_exchange.bundles.verification import Verification, VerificationStatus, verify

__all__ = [
    "BundleTooLarge",
    "Contents",
    "JudgmentCheck",
    "NotABundle",
    "Standing",
    "Verification",
    "VerificationStatus",
    "build",
    "bundle_chunks",
    "contents_of",
    "documents_of",
    "installed",
    "integrity_problems",
    "kept",
    "open_members",
    "read_record",
    "recheck",
    "verify",
]
