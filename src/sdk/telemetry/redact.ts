// Credentials must not leave the process in telemetry or reach its log, wherever a caller or a vendor puts them.

const CREDENTIAL = /kr[a-z]{0,12}_(live_|test_)?[A-Za-z0-9_-]{6,}|[a-z][a-z0-9]{1,8}_(live|test)_[A-Za-z0-9_-]{6,}/g;
const MAY_HAVE_CREDENTIAL = /kr|_live_|_test_/;

export function redactCredentials(text: string): string {
  return MAY_HAVE_CREDENTIAL.test(text) ? text.replace(CREDENTIAL, "kr_redacted") : text;
}
