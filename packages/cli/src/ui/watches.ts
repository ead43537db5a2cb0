// SPDX-License-Identifier: Apache-2.0
// Streams changes of VMs, VMIs and networks as JSON lines. All kinds share one response, because browsers limit the number of
// connections to a server.
import type { ServerResponse } from "node:http";
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type ResourceType,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Clock } from "@patchbay/base";
import type { KubeClient, Reflection } from "@patchbay/kube";

const WATCHED: Readonly<Record<string, ResourceType<KubeObject>>> = {
  vms: VIRTUAL_MACHINES,
  vmis: VIRTUAL_MACHINE_INSTANCES,
  networks: NETWORK_ATTACHMENT_DEFINITIONS,
};

/** Maximum size of unread data, in bytes. If a browser tab exceeds the limit, its connection is closed and the page reconnects. */
const UNREAD_MAX_BYTES = 64 * 1024 * 1024;

/** Interval and time limit of health requests, in milliseconds. Only their failure shows that a watch without events is broken. */
const PULSE_INTERVAL_MS = 4000;

interface AccessReview {
  readonly status?: { readonly allowed?: boolean };
}

async function mayListEverywhere(
  client: Pick<KubeClient, "exchange">,
  { group, resource }: ResourceType<KubeObject>,
): Promise<boolean> {
  const { status, text } = await client.exchange({
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    body: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { verb: "list", group, resource } },
    },
  });
  if (status >= 300) return false;
  const review = JSON.parse(text) as AccessReview; // The cast is safe, because the API server answers with an AccessReview.
  return review.status?.allowed === true;
}

export interface WatchScope {
  /** Namespace to watch. If unset, watches all namespaces, or only `namespace` if the user may not list objects in all namespaces. */
  readonly onlyIn?: string;
  readonly namespace: string;
}

async function findWatchedNamespace(
  client: Pick<KubeClient, "exchange">,
  type: ResourceType<KubeObject>,
  { onlyIn, namespace }: WatchScope,
): Promise<string | undefined> {
  if (onlyIn !== undefined) return onlyIn;
  return (await mayListEverywhere(client, type)) ? undefined : namespace;
}

export interface WatchDeps {
  readonly client: Pick<KubeClient, "exchange" | "reflect">;
  readonly clock: Pick<Clock, "sleep">;
}

type SendLine = (line: object) => void;

async function streamPulses(
  { client, clock }: WatchDeps,
  send: SendLine,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const isAnswering = await client
      .exchange({ method: "GET", path: "/version", timeoutMs: PULSE_INTERVAL_MS })
      .then(() => true)
      .catch(() => false);
    send({ kind: "pulse", isAnswering });
    await clock.sleep(PULSE_INTERVAL_MS, signal).catch(() => undefined);
  }
}

export async function streamChanges(
  deps: WatchDeps,
  scope: WatchScope,
  response: ServerResponse,
): Promise<void> {
  const { client } = deps;
  const send: SendLine = (line) => {
    if (response.destroyed) return;
    response.write(`${JSON.stringify(line)}\n`);
    if (response.writableLength > UNREAD_MAX_BYTES) response.destroy();
  };
  const watched = await Promise.all(
    Object.entries(WATCHED).map(async ([of, type]) => {
      const namespace = await findWatchedNamespace(client, type, scope);
      return { of, type, namespace };
    }),
  );
  for (const { of, type, namespace } of response.destroyed ? [] : watched) {
    send({ kind: "scope", of, namespace: namespace ?? null });
    const options = { isOptional: true, ...(namespace !== undefined && { namespace }) };
    const reflection = client.reflect(type, options);
    const subscription = reflection.subscribe((change: Reflection<KubeObject>) => {
      send({ of, ...change });
    });
    response.on("close", () => {
      subscription.unsubscribe();
    });
  }
  const ended = new AbortController();
  response.on("close", () => {
    ended.abort();
  });
  if (!response.destroyed) await streamPulses(deps, send, ended.signal);
}
