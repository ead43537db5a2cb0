// SPDX-License-Identifier: Apache-2.0
// Where is the container runtime? Several places are asked in order; the first that speaks CRI v1 is kept.
import { AppError, isAppError, messageOf } from "@patchbay/core/errors";
import type { Clock } from "@patchbay/core/ports";
import { openEndpoint, type Endpoint } from "./grpc.ts";

/** Where runtimes listen unless told otherwise: containerd, CRI-O, the containerd of k3s. */
export const DEFAULT_CRI_ENDPOINTS: readonly string[] = [
  "unix:///run/containerd/containerd.sock",
  "unix:///run/crio/crio.sock",
  "unix:///run/k3s/containerd/containerd.sock",
];

/**
 * The same places on the machine of a process: a pod that shares the host's process ids needs no directory of the host for
 * them, which a kubelet would make where the runtime is another one. Source: proc_pid_root(5)
 */
export function defaultEndpointsOf(hostProcess: number | undefined): readonly string[] {
  if (hostProcess === undefined) return DEFAULT_CRI_ENDPOINTS;
  const root = `unix:///proc/${String(hostProcess)}/root`;
  return DEFAULT_CRI_ENDPOINTS.map((endpoint) => endpoint.replace("unix://", root));
}

/** How long one place may take to say whether it speaks CRI v1, milliseconds. */
const VERSION_TIMEOUT_MS = 5000;

/** The runtime, once it has been found. */
export interface FoundEndpoint {
  /** @throws AppError with CRI_UNAVAILABLE while nobody answers */
  get(): Promise<Endpoint>;
  close(): void;
}

async function probe(address: string, clock: Clock): Promise<Endpoint> {
  const endpoint = openEndpoint(address, clock);
  const call = { service: "runtime.v1.RuntimeService", method: "Version", request: {} } as const;
  try {
    await endpoint.call(call, VERSION_TIMEOUT_MS);
    return endpoint;
  } catch (error) {
    endpoint.close();
    throw error;
  }
}

function reasonOf(error: unknown): string {
  return isAppError(error) ? String(error.details["reason"] ?? error.message) : messageOf(error);
}

async function findFirst(addresses: readonly string[], clock: Clock): Promise<Endpoint> {
  const reasons: string[] = [];
  for (const address of addresses) {
    try {
      return await probe(address, clock);
    } catch (error) {
      reasons.push(reasonOf(error)); // the next one may answer
    }
  }
  throw new AppError("CRI_UNAVAILABLE", {
    endpoint: addresses.join(", "),
    reason: reasons.join("; "),
  });
}

/** Looks at the addresses in order, at the first use and at each until one has answered. */
export function findEndpoint(addresses: readonly string[], clock: Clock): FoundEndpoint {
  let looking: Promise<Endpoint> | undefined;
  let isClosed = false;
  const look = async (): Promise<Endpoint> => {
    try {
      const found = await findFirst(addresses, clock);
      if (isClosed) found.close();
      return found;
    } catch (error) {
      looking = undefined;
      throw error;
    }
  };
  return {
    get: () => (looking ??= look()),
    close: () => {
      isClosed = true;
      looking?.then(
        (endpoint) => {
          endpoint.close();
        },
        () => undefined, // nothing is open
      );
    },
  };
}
