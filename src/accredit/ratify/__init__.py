"""The Ratify protocol."""

from accredit.ratify.cache import CertificateCache
from accredit.ratify.structures import ProofBundle, decode_proof_bundle
from accredit.ratify.verify import verify_bundle
