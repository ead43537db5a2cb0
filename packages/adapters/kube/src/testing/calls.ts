// SPDX-License-Identifier: Apache-2.0
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Store, WriteOptions } from "@patchbay/core/interfaces";

/** Wraps the store to report verb and resource of each call, for example `patch virtualmachines/status`. */
export function noteCalls(store: Store, note: (call: string) => void): Store {
  const noteCall = (
    verb: string,
    { resource }: ResourceType<KubeObject>,
    options?: WriteOptions,
  ): void => {
    note(`${verb} ${resource}${options?.subresource === undefined ? "" : "/status"}`);
  };
  return {
    find: (type, ...rest) => {
      noteCall("get", type);
      return store.find(type, ...rest);
    },
    list: (type, ...rest) => {
      noteCall("list", type);
      return store.list(type, ...rest);
    },
    create: (type, ...rest) => {
      noteCall("create", type);
      return store.create(type, ...rest);
    },
    update: (type, ...rest) => {
      noteCall("update", type, rest[1]);
      return store.update(type, ...rest);
    },
    patch: (type, ...rest) => {
      noteCall("patch", type, rest[2]);
      return store.patch(type, ...rest);
    },
    delete: (type, ...rest) => {
      noteCall("delete", type);
      return store.delete(type, ...rest);
    },
  };
}
