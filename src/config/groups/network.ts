// Where the server listens, and what is in front of it.
import { cidrs, httpUrl, integer, metrics, path, text } from "../parsers.ts";
import { setting } from "../setting.ts";

export const networkSettings = {
  host: setting(text, "127.0.0.1", "Address to listen on."),
  port: setting(integer(0, 65_535), "4747", "Port to listen on; 0 = any free port."),
  public_url: setting(httpUrl, "", "URL that people and browsers use; unset = the URL of the listener."),
  trust_proxy: setting(cidrs, "", "Proxies whose X-Forwarded-For header is trusted: addresses or CIDR ranges."),
  tls_cert: setting(path, "", "Certificate file; with KEYRACK_TLS_KEY it enables TLS."),
  tls_key: setting(path, "", "Private key file of the certificate."),
  metrics: setting(metrics, "off", "HOST:PORT on which to serve /metrics, or off."),
} as const;
