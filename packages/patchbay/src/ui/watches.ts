// SPDX-License-Identifier: Apache-2.0
// Changes of VMs, VMIs and networks, as lines of JSON in one answer that never ends: a browser has six connections
// to a server, and each watch would hold one of them.
import type { ServerResponse } from "node:http";
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type KubeObject,
  type ResourceType,
} from "@patchbay/api";
import type { Clock } from "@patchbay/core/ports";
import type { KubeClient, Reflection } from "@patchbay/kube";

/** The kinds that the panel shows, by the words of the lines. */
const WATCHED: Readonly<Record<string, ResourceType<KubeObject>>> = {
  vms: VIRTUAL_MACHINES,
  vmis: VIRTUAL_MACHINE_INSTANCES,
  networks: NETWORK_ATTACHMENT_DEFINITIONS,
};

/** What a tab that does not read may leave behind, bytes; it asks anew when it does. */
const UNREAD_MAX = 64 * 1024 * 1024;

/**
 * How often the API server is asked whether it answers, and how long it has, milliseconds: a watch is silent when nothing
 * changes, and when the server is frozen.
 */
const PULSE_MS = 4000;

interface AccessReview {
  readonly status?: { readonly allowed?: boolean };
}

async function mayListEverywhere(
  client: Pick<KubeClient, "ask">,
  { group, resource }: ResourceType<KubeObject>,
): Promise<boolean> {
  const { status, text } = await client.ask({
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    body: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { verb: "list", group, resource } },
    },
  });
  if (status >= 300) return false;
  const review = JSON.parse(text) as AccessReview; // the API server's own answer
  return review.status?.allowed === true;
}

/** What is watched. */
export interface WatchScope {
  /** Absent: as far as the user may look, and at least this one. */
  readonly onlyIn?: string;
  readonly namespace: string;
}

async function namespaceOf(
  client: Pick<KubeClient, "ask">,
  type: ResourceType<KubeObject>,
  { onlyIn, namespace }: WatchScope,
): Promise<string | undefined> {
  if (onlyIn !== undefined) return onlyIn;
  return (await mayListEverywhere(client, type)) ? undefined : namespace;
}

/** What a watch works with. */
export interface WatchDeps {
  readonly client: Pick<KubeClient, "ask" | "reflect">;
  readonly clock: Pick<Clock, "sleep">;
}

type Tell = (line: object) => void;

/** Asks for what every user may read; an answer that refuses is an answer too. */
async function tellPulses(
  { client, clock }: WatchDeps,
  tell: Tell,
  ended: AbortSignal,
): Promise<void> {
  while (!ended.aborted) {
    const isAnswering = await client
      .ask({ method: "GET", path: "/version", timeoutMs: PULSE_MS })
      .then(() => true)
      .catch(() => false);
    tell({ kind: "pulse", isAnswering });
    await clock.sleep(PULSE_MS, ended).catch(() => undefined); // it has ended
  }
}

/** Tells until the browser goes away. */
export async function tellChanges(
  deps: WatchDeps,
  scope: WatchScope,
  response: ServerResponse,
): Promise<void> {
  const { client } = deps;
  const tell: Tell = (line) => {
    if (response.destroyed) return;
    response.write(`${JSON.stringify(line)}\n`);
    if (response.writableLength > UNREAD_MAX) response.destroy();
  };
  const watched = await Promise.all(
    Object.entries(WATCHED).map(async ([of, type]) => {
      const namespace = await namespaceOf(client, type, scope);
      return { of, type, namespace };
    }),
  );
  for (const { of, type, namespace } of response.destroyed ? [] : watched) {
    tell({ kind: "scope", of, namespace: namespace ?? null });
    const wanted = { isOptional: true, ...(namespace !== undefined && { namespace }) };
    const reflection = client.reflect(type, wanted);
    const subscription = reflection.subscribe((told: Reflection<KubeObject>) => {
      tell({ of, ...told });
    });
    response.on("close", () => {
      subscription.unsubscribe();
    });
  }
  const ended = new AbortController();
  response.on("close", () => {
    ended.abort();
  });
  if (!response.destroyed) await tellPulses(deps, tell, ended.signal);
}
