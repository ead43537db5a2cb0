// SPDX-License-Identifier: Apache-2.0
// The container runtime as an agent of its node uses it: it is asked where pods are, and nothing else.
import { AppError, messageOf } from "@patchbay/core/errors";
import type { Clock, ContainerRuntime, Logger, Namespaces, Sandboxes } from "@patchbay/core/ports";
import { createContainerRuntime } from "./container-runtime.ts";
import { defaultEndpointsOf } from "./endpoints.ts";
import { createCriSandboxes } from "./sandboxes.ts";

/** How long it is waited between two questions, milliseconds: at first, and at most. */
const PAUSE = { firstMs: 100, maxMs: 2000 };

/** What is asked, and who is told. */
export interface RuntimeWait {
  readonly runtime: Pick<ContainerRuntime, "version">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Resolves when the runtime has answered, or the signal is aborted; why it does not is told whenever that changes. */
export async function waitForRuntime(
  { runtime, clock, log }: RuntimeWait,
  signal: AbortSignal,
): Promise<void> {
  let told = "";
  for (let pauseMs = PAUSE.firstMs; !signal.aborted; pauseMs = Math.min(pauseMs * 2, PAUSE.maxMs)) {
    try {
      log.info("found the container runtime", { ...(await runtime.version()) });
      return;
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== told) log.warn("waiting for the container runtime", { reason });
      told = reason;
    }
    await clock.sleep(pauseMs, signal).catch(() => undefined); // aborted
  }
}

/** How long the runtime may take to say that it is there, milliseconds: less than a probe waits (5 s). */
const ANSWER_MS = 3000;

/** What is wrong with a runtime that is asked now; undefined: it has answered in time. */
export async function findProblem({
  runtime,
  clock,
}: Omit<RuntimeWait, "log">): Promise<string | undefined> {
  const over = new AbortController();
  const late = clock
    .sleep(ANSWER_MS, over.signal)
    .then(() => messageOf(new AppError("CRI_TIMED_OUT", { call: "Version", timeoutMs: ANSWER_MS })))
    .catch(() => undefined); // it has answered
  const asked = runtime.version().then(() => undefined, messageOf);
  try {
    return await Promise.race([asked, late]);
  } finally {
    over.abort();
  }
}

/** The pods' sandboxes on a node. */
export interface OpenSandboxes {
  readonly sandboxes: Sandboxes;
  /** Asks the runtime now, and says within 3 s what is wrong with it; undefined: it answers. */
  findProblem(): Promise<string | undefined>;
  /** Resolves when the runtime has answered for the first time, or the signal is aborted. */
  readonly answered: Promise<void>;
  close(): void;
}

/** What {@link openSandboxes} needs. */
export interface OpenSandboxesOptions {
  /** Where the runtime listens; undefined: the usual places, in order. */
  readonly endpoints: readonly string[] | undefined;
  /** Whose machine has the usual places; undefined: this process'. */
  readonly hostProcess: number | undefined;
  readonly namespaces: Namespaces;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Opens the runtime of the node, which need not be there yet. */
export function openSandboxes(options: OpenSandboxesOptions, signal: AbortSignal): OpenSandboxes {
  const { hostProcess, namespaces, clock, log } = options;
  const endpoints = options.endpoints ?? defaultEndpointsOf(hostProcess);
  const runtime = createContainerRuntime({ endpoints, clock });
  return {
    sandboxes: createCriSandboxes({ runtime, namespaces }),
    findProblem: () => findProblem({ runtime, clock }),
    answered: waitForRuntime({ runtime, clock, log }, signal),
    close: () => {
      runtime.close();
    },
  };
}
