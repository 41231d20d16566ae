// Recognises errors of TLS certificates, which Node names by its own codes and OpenSSL's.

const CODES =
  /^(CERT_|CRL_|ERR_TLS_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET|VERIFY)_|INVALID_CA|HOSTNAME_MISMATCH)/;

export function isCertificateError(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" && CODES.test(code);
}
