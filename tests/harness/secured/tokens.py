"""Tokens (JWT) as an identity provider signs them, and its keys as a broker reads them."""
import base64
import json
import subprocess
import time

from .certificates import openssl


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Signer:
    """keys: the file with the public key (a JSON Web Key Set)."""

    def __init__(self, folder, name="signer"):
        folder.mkdir(parents=True, exist_ok=True)
        self.key, self.keys, self.name = folder / f"{name}.key", folder / f"{name}.json", name
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self.key)
        modulus = subprocess.run(["openssl", "rsa", "-in", self.key, "-noout", "-modulus"], capture_output=True, text=True, check=True).stdout
        number = bytes.fromhex(modulus.strip().removeprefix("Modulus="))
        self.keys.write_text(json.dumps({"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": name, "n": url64(number), "e": "AQAB"}]}))

    def token(self, subject, seconds=3600, **claims):
        """One that holds for so long."""
        now = int(time.time())
        head = {"alg": "RS256", "kid": self.name, "typ": "JWT"}
        body = {"sub": subject, "iss": "the test", "aud": "kafka", "scope": "kafka", "iat": now - 60, "exp": now + seconds, **claims}
        signed = ".".join(url64(json.dumps(part).encode()) for part in (head, body))
        made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=signed.encode(), capture_output=True, check=True)
        return f"{signed}.{url64(made.stdout)}"
