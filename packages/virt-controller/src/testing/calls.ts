// SPDX-License-Identifier: Apache-2.0
// What virt-controller asks of the API server, call by call.
import type { KubeObject, ResourceType } from "@patchbay/api";
import type { KubeClient } from "@patchbay/kube";
import type { Store, WriteOptions } from "@patchbay/ports";

/** The client, and `calls`: verb and resource of each call of its store so far, such as `patch virtualmachines/status`. */
export function countCalls(client: KubeClient): {
  readonly client: KubeClient;
  readonly calls: readonly string[];
} {
  const { store } = client;
  const calls: string[] = [];
  const note = (verb: string, { resource }: ResourceType<KubeObject>, on?: WriteOptions): void => {
    calls.push(`${verb} ${resource}${on?.subresource === undefined ? "" : "/status"}`);
  };
  const counted: Store = {
    find: (type, ...rest) => {
      note("get", type);
      return store.find(type, ...rest);
    },
    list: (type, ...rest) => {
      note("list", type);
      return store.list(type, ...rest);
    },
    create: (type, ...rest) => {
      note("create", type);
      return store.create(type, ...rest);
    },
    update: (type, ...rest) => {
      note("update", type, rest[1]);
      return store.update(type, ...rest);
    },
    patch: (type, ...rest) => {
      note("patch", type, rest[2]);
      return store.patch(type, ...rest);
    },
    delete: (type, ...rest) => {
      note("delete", type);
      return store.delete(type, ...rest);
    },
  };
  return { client: { ...client, store: counted }, calls };
}
