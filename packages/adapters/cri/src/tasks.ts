// SPDX-License-Identifier: Apache-2.0
// Client of containerd's task service for what CRI lacks: programs that exec started, and the end of a task that CRI takes for ended.
import { isAppError } from "@patchbay/base";
import type { ExecPrograms } from "@patchbay/core/interfaces";
import { createEndpointFinder, type CriOptions, type EndpointFinder } from "./endpoints.ts";
import { CONTAINERD_NAMESPACE } from "./events.ts";
import type { Endpoint } from "./grpc.ts";

/** Time limit of a call, in milliseconds. It is short, because containerd forwards the call to a shim, which may hang. */
const TIMEOUT_MS = 5000;
const SIGKILL = 9;

/** Source: containerd tasks ListPidsResponse, runc options ProcessDetails. */
interface ProcessList {
  readonly processes: readonly {
    readonly info: { readonly value: { readonly execId: string } | null } | null;
  }[];
}

export interface CriExecPrograms extends ExecPrograms {
  close(): void;
}

/** Creates a client that connects on the first call. Calls to a runtime other than containerd fail with the gRPC status UNIMPLEMENTED. */
export function createExecPrograms({ endpoints, clock }: CriOptions): CriExecPrograms {
  return new ContainerdPrograms(createEndpointFinder(endpoints, clock));
}

class ContainerdPrograms implements CriExecPrograms {
  readonly #endpoint: EndpointFinder;

  constructor(finder: EndpointFinder) {
    this.#endpoint = finder;
  }

  async list(containerId: string): Promise<readonly string[]> {
    const answer = await this.#call<ProcessList>("ListPids", { containerId });
    const ids = (answer?.processes ?? []).map(({ info }) => info?.value?.execId ?? "");
    return ids.filter((id) => id !== "");
  }

  async kill(containerId: string, execId: string): Promise<void> {
    await this.#call("Kill", { containerId, execId, signal: SIGKILL });
  }

  close(): void {
    this.#endpoint.close();
  }

  async #call<Answer>(method: string, request: object): Promise<Answer | undefined> {
    return callTasks<Answer>(await this.#endpoint.get(), method, request);
  }
}

export async function endTask(endpoint: Endpoint, containerId: string): Promise<void> {
  await callTasks(endpoint, "Kill", { containerId, signal: SIGKILL, all: true });
  await callTasks(endpoint, "Wait", { containerId });
  await callTasks(endpoint, "Delete", { containerId });
}

async function callTasks<Answer>(
  endpoint: Endpoint,
  method: string,
  request: object,
): Promise<Answer | undefined> {
  const service = "containerd.services.tasks.v1.Tasks";
  try {
    const call = { service, method, request, namespace: CONTAINERD_NAMESPACE } as const;
    return await endpoint.call<Answer>(call, TIMEOUT_MS);
  } catch (error) {
    if (isAppError(error, "CRI_FAILED") && error.details["status"] === "NOT_FOUND")
      return undefined;
    throw error;
  }
}
