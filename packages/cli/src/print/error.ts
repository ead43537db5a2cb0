// SPDX-License-Identifier: Apache-2.0
// Error messages, hints and exit codes of failed commands.
import { fillTemplate, isAppError, messageOf, type AppError, type ErrorCode } from "@patchbay/base";
import { indentLines, escapeLine } from "./safe.ts";

const FAILED = 1;
const USAGE_EXIT_CODE = 2;
const NOT_FOUND = 3;
const CONFLICT = 4;
const UNREACHABLE = 5;

const EXIT_CODES: Readonly<Partial<Record<ErrorCode, number>>> = {
  STANDALONE_SETTING_INVALID: USAGE_EXIT_CODE,
  FLAG_INVALID: USAGE_EXIT_CODE,
  IMAGE_NAME_INVALID: USAGE_EXIT_CODE,
  IMAGE_SOURCE_INVALID: USAGE_EXIT_CODE,
  CONTAINERD_PATH_TOO_LONG: USAGE_EXIT_CODE,
  KUBE_NOT_FOUND: NOT_FOUND,
  STANDALONE_NOT_FOUND: NOT_FOUND,
  CNI_NETWORK_NOT_FOUND: NOT_FOUND,
  RUNTIME_IMAGE_MISSING: NOT_FOUND,
  KUBE_CONFLICT: CONFLICT,
  KUBE_ALREADY_EXISTS: CONFLICT,
  IMAGE_IN_USE: CONFLICT,
  STANDALONE_RUNS_ALREADY: CONFLICT,
  INSTALL_NOT_OURS: CONFLICT,
  INSTALL_CHECKS_FAILED: CONFLICT,
  INSTALL_IN_USE: CONFLICT,
  KUBE_UNREACHABLE: UNREACHABLE,
  RUNTIME_NOT_RUNNING: UNREACHABLE,
  LAUNCHER_UNREACHABLE: UNREACHABLE,
  LAUNCHER_NOT_LISTENING: UNREACHABLE,
};

/** Exit codes for rejections, by the type of their causes. Source: Kubernetes metav1.CauseType. */
const CAUSE_EXIT_CODES: Readonly<Record<string, number>> = {
  FieldValueNotFound: NOT_FOUND,
  FieldValueDuplicate: CONFLICT,
};

/** Hints by error code. A hint with `{inspectCommand}` is printed only if the error's details contain a command to show the object. */
const HINTS: Readonly<Partial<Record<ErrorCode, string>>> = {
  KUBE_UNREACHABLE: "start the machine with: patchbay up; or name another server with --kubeconfig",
  KUBE_CONFIG_INVALID: "start a machine with: patchbay up; or name a file with --kubeconfig",
  KUBE_NOT_FOUND: "list what exists with: kubectl get vm,vmi; choose another namespace with -n",
  KUBE_CONFLICT: "show the current state with: {inspectCommand}; then retry",
  KUBE_FORBIDDEN: "ask your administrator for this right, or use another --kubeconfig",
  KUBE_UNAUTHORIZED:
    "the kubeconfig's credentials may have expired; name another with --kubeconfig",
  KUBE_SERVER_FAILED: "see the logs of the API server and of virt-api",
  KUBE_WAIT_TIMED_OUT:
    "the request continues in the background; see why it waits with: {inspectCommand}",
  KUBE_WAIT_FAILED: "see what prevents it with: {inspectCommand}",
  KUBE_WAIT_INTERRUPTED: "see its current state with: {inspectCommand}",
  STANDALONE_NOT_FOUND: "name the machine's directory with --data-dir",
  INSTALL_NOT_OURS:
    "another installation, KubeVirt for example, serves these kinds; objects of Patchbay are labelled app.kubernetes.io/part-of=patchbay",
  INSTALL_CHECKS_FAILED:
    "correct what the report names, or install in spite of it with --skip-checks",
  INSTALL_NOT_READY:
    "find the cause with: patchbay doctor; for a bug report: patchbay doctor --bundle",
  INSTALL_IN_USE: "delete them first, and wait until they are gone: kubectl get vm,vmi -A",
  RUNTIME_NOT_RUNNING: "start it with: patchbay up",
};

/** HTTP statuses that mean that the server behind an aggregated API does not respond. */
const UNAVAILABLE_STATUSES: ReadonlySet<unknown> = new Set([502, 503, 504]);

/** Returns the exit code: 1 failed, 2 wrong usage, 3 not found, 4 conflict, 5 unreachable. */
export function exitCodeOf(error: unknown): number {
  if (!isAppError(error)) return FAILED;
  if (error.code === "KUBE_SERVER_FAILED" && UNAVAILABLE_STATUSES.has(error.details["status"])) {
    return UNREACHABLE;
  }
  // Rejections for a missing object and for a name in use have the same code. Only the type of their cause differs.
  const causeExitCode = CAUSE_EXIT_CODES[String(error.details["causeType"])];
  return EXIT_CODES[error.code] ?? causeExitCode ?? FAILED;
}

function printHead(error: AppError): string {
  const { status, message } = error.details;
  return status !== undefined && typeof message === "string" && message !== ""
    ? message
    : error.message;
}

function listCauseMessages(error: unknown, messages: readonly string[] = []): readonly string[] {
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause === undefined || messages.length > 8) return messages;
  const message = messageOf(cause);
  return listCauseMessages(
    cause,
    message === "" || messages.includes(message) ? messages : [...messages, message],
  );
}

function stripFieldPath(line: string): string {
  return line.replace(/^[\w.[\]]+: /, "");
}

/** Returns the causes that `head` does not contain. A server's message often repeats the causes. */
function listCauseLines(error: unknown, head: string): readonly string[] {
  const causes = isAppError(error) ? error.details["causes"] : undefined;
  const fields = typeof causes === "string" ? causes.split("\n") : [];
  return [...fields, ...listCauseMessages(error)].filter(
    (line) => !head.includes(stripFieldPath(line)),
  );
}

/** Returns the hint for the error's code; undefined if the hint contains `{inspectCommand}` and the details lack the command. */
function findHint({ code, details }: AppError): string | undefined {
  const hint = HINTS[code];
  if (hint?.includes("{inspectCommand}") !== true) return hint;
  return details["inspectCommand"] === undefined ? undefined : fillTemplate(hint, details);
}

export function printError(error: unknown): string {
  const head = isAppError(error) ? printHead(error) : messageOf(error);
  const hint = isAppError(error) ? findHint(error) : undefined;
  return [
    `error: ${indentLines(head, "  ")}`,
    ...listCauseLines(error, head).map((line) => `  ${indentLines(line, "  ")}`),
    ...(hint === undefined ? [] : [`hint: ${escapeLine(hint)}`]),
    "",
  ].join("\n");
}
