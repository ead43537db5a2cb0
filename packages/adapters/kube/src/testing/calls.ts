// SPDX-License-Identifier: Apache-2.0
// What somebody asks of the API server, call by call.
import type { KubeObject, ResourceType } from "@patchbay/api";
import type { Store, WriteOptions } from "@patchbay/core/ports";

/** The store; `note` gets verb and resource of each call of it, such as `patch virtualmachines/status`. */
export function noteCalls(store: Store, note: (call: string) => void): Store {
  const tell = (verb: string, { resource }: ResourceType<KubeObject>, on?: WriteOptions): void => {
    note(`${verb} ${resource}${on?.subresource === undefined ? "" : "/status"}`);
  };
  return {
    find: (type, ...rest) => {
      tell("get", type);
      return store.find(type, ...rest);
    },
    list: (type, ...rest) => {
      tell("list", type);
      return store.list(type, ...rest);
    },
    create: (type, ...rest) => {
      tell("create", type);
      return store.create(type, ...rest);
    },
    update: (type, ...rest) => {
      tell("update", type, rest[1]);
      return store.update(type, ...rest);
    },
    patch: (type, ...rest) => {
      tell("patch", type, rest[2]);
      return store.patch(type, ...rest);
    },
    delete: (type, ...rest) => {
      tell("delete", type);
      return store.delete(type, ...rest);
    },
  };
}
