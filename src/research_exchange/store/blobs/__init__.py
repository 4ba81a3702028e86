"""Evidence bytes, named by their own SHA-256 and read back only while they still have it (R-16C).

`FolderBlobs` keeps them in a folder, `S3Blobs` in any S3-compatible store. Both take bytes in through an `Incoming`: a
file on this machine that is hashed while it grows, can be looked at, and is kept only when somebody says so.
"""

from research_exchange.store.blobs.contract import BlobStore, BlobTooLarge, StorageUnreachable, StoredBlob
from research_exchange.store.blobs.folder import FolderBlobs
from research_exchange.store.blobs.incoming import Incoming
from research_exchange.store.blobs.opening import open_blobs
from research_exchange.store.blobs.s3 import S3Blobs

__all__ = [
    "BlobStore",
    "BlobTooLarge",
    "FolderBlobs",
    "Incoming",
    "S3Blobs",
    "StorageUnreachable",
    "StoredBlob",
    "open_blobs",
]
