// SPDX-License-Identifier: Apache-2.0
// Asks a container once.
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import { isAppError, messageOf } from "@patchbay/core";
import type { ContainerRuntime } from "@patchbay/core/ports";
import type { ProbeResult } from "./probe-state.ts";
import type { Question } from "./question.ts";

/** What was answered. */
export interface ProbeAnswer {
  readonly outcome: ProbeResult;
  /** Why it is no success. */
  readonly message: string;
}

/** Whom, and for how long at most. */
export interface Asking {
  readonly containerId: string;
  readonly timeoutSeconds: number;
}

/** More of an answer is not shown. */
const SHOWN_LENGTH = 500;

const SUCCESS: ProbeAnswer = { outcome: "success", message: "" };

function failure(message: string): ProbeAnswer {
  return { outcome: "failure", message: message.trim().slice(0, SHOWN_LENGTH) };
}

async function askProgram(
  runtime: Pick<ContainerRuntime, "execSync">,
  command: readonly string[],
  { containerId, timeoutSeconds }: Asking,
): Promise<ProbeAnswer> {
  try {
    const { exitCode, stdout, stderr } = await runtime.execSync(
      containerId,
      command,
      timeoutSeconds,
    );
    return exitCode === 0
      ? SUCCESS
      : failure(`${stdout}${stderr}` || `it ended with ${String(exitCode)}`);
  } catch (error) {
    if (isAppError(error, "CRI_TIMED_OUT")) {
      return failure(`it did not finish within ${String(timeoutSeconds)} s`);
    }
    if (isAppError(error, "CRI_FAILED") && error.details["status"] === "RESOURCE_EXHAUSTED") {
      return failure("it says too much");
    }
    // A runtime that is away says nothing of the container; a program that cannot be started does.
    if (isAppError(error, "CRI_UNAVAILABLE"))
      return { outcome: "unknown", message: messageOf(error) };
    return failure(messageOf(error));
  }
}

async function askPort(
  { host, port }: Extract<Question, { kind: "tcp" }>,
  timeoutMs: number,
): Promise<ProbeAnswer> {
  const { promise, resolve } = Promise.withResolvers<ProbeAnswer>();
  const socket = connect({ host, port });
  socket.setTimeout(timeoutMs, () => {
    resolve(failure(`no connection within ${String(timeoutMs)} ms`));
  });
  socket.once("connect", () => {
    resolve(SUCCESS);
  });
  socket.once("error", (error) => {
    resolve(failure(error.message));
  });
  try {
    return await promise;
  } finally {
    socket.destroy();
  }
}

async function askServer(
  { isTls, host, port, path, headers }: Extract<Question, { kind: "http" }>,
  timeoutMs: number,
): Promise<ProbeAnswer> {
  const { promise, resolve } = Promise.withResolvers<ProbeAnswer>();
  const fields = { "user-agent": "kube-probe/1", accept: "*/*", ...Object.fromEntries(headers) };
  const where = { host, port, path, headers: fields, agent: false as const };
  const signal = AbortSignal.timeout(timeoutMs);
  // As kubelets do: who the server is, the certificate does not have to prove.
  const outgoing = isTls
    ? httpsRequest({ ...where, rejectUnauthorized: false, signal })
    : httpRequest({ ...where, signal });
  outgoing.once("response", (answer) => {
    const code = answer.statusCode ?? 0;
    resolve(
      code >= 200 && code < 400
        ? SUCCESS
        : failure(`HTTP probe failed with statuscode: ${String(code)}`),
    );
    outgoing.destroy();
  });
  outgoing.on("error", (error) => {
    resolve(failure(signal.aborted ? `no answer within ${String(timeoutMs)} ms` : error.message));
  });
  outgoing.end();
  return promise;
}

/** Asks, and waits for the answer no longer than told. Never rejects. */
export async function askContainer(
  runtime: Pick<ContainerRuntime, "execSync">,
  question: Question,
  asking: Asking,
): Promise<ProbeAnswer> {
  const timeoutMs = asking.timeoutSeconds * 1000;
  switch (question.kind) {
    case "exec":
      return askProgram(runtime, question.command, asking);
    case "tcp":
      return askPort(question, timeoutMs);
    case "http":
      return askServer(question, timeoutMs);
    case "none":
      return failure(question.reason);
  }
}
