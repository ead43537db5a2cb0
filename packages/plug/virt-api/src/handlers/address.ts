// SPDX-License-Identifier: Apache-2.0
// Where is the virt-handler of a node?
import { names, PODS, type Pod } from "@patchbay/api";
import type { Store } from "@patchbay/core/ports";

/** A TCP address. */
export interface HandlerAddress {
  readonly host: string;
  readonly port: number;
}

/** Finds it; undefined where none runs there. */
export type FindHandler = (node: string) => Promise<HandlerAddress | undefined>;

/** As the manifests name it. */
export const HANDLER_PORT = 8186;
const HANDLERS = "app.kubernetes.io/name=virt-handler";

function isThere({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp === undefined && status?.phase === "Running";
}

/** By the pods of the DaemonSet; asked for each time, since such requests are rare. */
export function findByPods(store: Store): FindHandler {
  return async (node) => {
    const { items } = await store.list(PODS, {
      namespace: names.SERVICES_NAMESPACE,
      labelSelector: HANDLERS,
      fieldSelector: `spec.nodeName=${node}`,
    });
    const host = items.find(isThere)?.status?.podIP ?? "";
    return host === "" ? undefined : { host, port: HANDLER_PORT };
  };
}
