"""An authority of the test's own, and certificates that it signs, good ones and bad ones, made by openssl."""
import subprocess

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def openssl(*words, text=None):
    done = subprocess.run(["openssl", *map(str, words)], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Authority:
    def __init__(self, folder, name="authority"):
        self.folder, self.name = folder, name
        folder.mkdir(parents=True, exist_ok=True)
        self.key, self.file = folder / f"{name}.key", folder / f"{name}.pem"
        openssl("req", "-x509", *KEY, "-keyout", self.key, "-out", self.file, "-subj", f"/CN={name}", "-days", 30)

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1", days=30):
        """(certificate, key) for the subject's names; days below 0: it has expired."""
        certificate, key, request = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n")
        openssl("req", *KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.key, "-days", days, "-out", certificate, "-extfile", extensions)
        return certificate, key
