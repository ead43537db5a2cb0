// SPDX-License-Identifier: Apache-2.0
// What must never reach a log? Secrets are replaced here, whatever the caller passes.

const REDACTED = "[redacted]";
/** Names of members whose value is a secret. */
const SECRET_NAME =
  /^(authorization|cookie|password|secret|token|bearertoken|clientkeydata|client-key-data|tls\.key|privatekey|key-?data|userdata|cloudinit.*)$/i;
/** Secrets within text: bearer tokens and JWTs, private keys in PEM. */
const SECRET_TEXTS: readonly RegExp[] = [
  /\bBearer\s+[\w.~+/=-]+/gi,
  /\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/g,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g,
];
/** How deep values are looked into; below, they are printed as text. */
const DEPTH_MAX = 6;

function redactText(text: string): string {
  return SECRET_TEXTS.reduce((result, pattern) => result.replace(pattern, REDACTED), text);
}

function redactError(error: Error, depth: number): unknown {
  const code: unknown = "code" in error ? error.code : undefined;
  return {
    name: error.name,
    message: redactText(error.message),
    ...(code !== undefined && { code }),
    ...(error.stack !== undefined && { stack: redactText(error.stack) }),
    ...(error.cause !== undefined && { cause: redactValue(error.cause, depth + 1) }),
  };
}

function redactRecord(record: object, depth: number): unknown {
  const entries = Object.entries(record).map(([name, value]): [string, unknown] => [
    name,
    SECRET_NAME.test(name) ? REDACTED : redactValue(value, depth + 1),
  ]);
  return Object.fromEntries(entries);
}

/** The value as a log may have it: plain data without secrets; errors with their causes. */
export function redactValue(value: unknown, depth = 0): unknown {
  if (typeof value === "string") return redactText(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return value;
  if (depth > DEPTH_MAX) return "[deep]";
  if (value instanceof Error) return redactError(value, depth);
  if (Array.isArray(value)) return value.map((item) => redactValue(item, depth + 1));
  return redactRecord(value, depth);
}
