// SPDX-License-Identifier: Apache-2.0
// What this API offers, as clients ask for it. Source: Kubernetes API concepts, "API discovery".
import { names } from "@patchbay/api";

const VERSION = "v1";
const GROUP_VERSION = { groupVersion: `${names.SUBRESOURCES_GROUP}/${VERSION}`, version: VERSION };
const GROUP = {
  name: names.SUBRESOURCES_GROUP,
  versions: [GROUP_VERSION],
  preferredVersion: GROUP_VERSION,
};

/** The kinds and their subresources that are served. */
export const SUBRESOURCES = {
  virtualmachines: ["addinterface", "removeinterface", "restart", "start", "stop"],
  virtualmachineinstances: ["addinterface", "removeinterface"],
} as const;

const KINDS = {
  virtualmachines: "VirtualMachine",
  virtualmachineinstances: "VirtualMachineInstance",
} as const;

function toResource(resource: keyof typeof SUBRESOURCES, subresource: string): object {
  return {
    name: `${resource}/${subresource}`,
    singularName: "",
    namespaced: true,
    kind: KINDS[resource],
    verbs: ["update"],
  };
}

/** `/apis` */
export const GROUP_LIST: object = { kind: "APIGroupList", apiVersion: "v1", groups: [GROUP] };
/** `/apis/subresources.kubevirt.io` */
export const API_GROUP: object = { kind: "APIGroup", apiVersion: "v1", ...GROUP };
/** `/apis/subresources.kubevirt.io/v1` */
export const RESOURCE_LIST: object = {
  kind: "APIResourceList",
  apiVersion: "v1",
  groupVersion: GROUP_VERSION.groupVersion,
  resources: [
    ...SUBRESOURCES.virtualmachines.map((name) => toResource("virtualmachines", name)),
    ...SUBRESOURCES.virtualmachineinstances.map((name) =>
      toResource("virtualmachineinstances", name),
    ),
  ],
};
