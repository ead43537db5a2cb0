// SPDX-License-Identifier: Apache-2.0
// Rights of the user in a namespace, from the API server's rules review.

/** Rule about resources. Source: ResourceRule of authorization.k8s.io/v1. */
export interface Rule {
  readonly verbs?: readonly string[];
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
}

/** Rules of a user. `incomplete` means that the server may have more rules. */
export interface Rules {
  readonly resourceRules?: readonly Rule[];
  readonly incomplete?: boolean;
}

export interface Right {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
}

function includesName(list: readonly string[] | undefined, value: string): boolean {
  return (list ?? []).some((each) => each === "*" || each === value);
}

function includesResource(list: readonly string[] | undefined, resource: string): boolean {
  const [, subresource] = resource.split("/");
  const wildcard = subresource === undefined ? "*" : `*/${subresource}`;
  return includesName(list, resource) || (list ?? []).includes(wildcard);
}

/** Returns whether the user has the right. Returns true for incomplete rules, because the API server checks each request anyway. */
export function hasRight({ resourceRules = [], incomplete = false }: Rules, right: Right): boolean {
  const isAllowed = resourceRules.some(
    (rule) =>
      includesName(rule.verbs, right.verb) &&
      includesName(rule.apiGroups, right.group) &&
      includesResource(rule.resources, right.resource),
  );
  return isAllowed || incomplete;
}

const SUBRESOURCES = "subresources.kubevirt.io";
const KUBEVIRT = "kubevirt.io";

export const RIGHTS = {
  plug: { verb: "update", group: SUBRESOURCES, resource: "virtualmachines/addinterface" },
  pull: { verb: "update", group: SUBRESOURCES, resource: "virtualmachines/removeinterface" },
  edit: { verb: "patch", group: KUBEVIRT, resource: "virtualmachines" },
  plugVmi: {
    verb: "update",
    group: SUBRESOURCES,
    resource: "virtualmachineinstances/addinterface",
  },
  pullVmi: {
    verb: "update",
    group: SUBRESOURCES,
    resource: "virtualmachineinstances/removeinterface",
  },
  editVmi: { verb: "patch", group: KUBEVIRT, resource: "virtualmachineinstances" },
  create: { verb: "create", group: KUBEVIRT, resource: "virtualmachines" },
  delete: { verb: "delete", group: KUBEVIRT, resource: "virtualmachines" },
  deleteVmi: { verb: "delete", group: KUBEVIRT, resource: "virtualmachineinstances" },
  events: { verb: "list", group: "", resource: "events" },
  start: { verb: "update", group: SUBRESOURCES, resource: "virtualmachines/start" },
  stop: { verb: "update", group: SUBRESOURCES, resource: "virtualmachines/stop" },
  restart: { verb: "update", group: SUBRESOURCES, resource: "virtualmachines/restart" },
  migrate: { verb: "update", group: SUBRESOURCES, resource: "virtualmachines/migrate" },
  pause: { verb: "update", group: SUBRESOURCES, resource: "virtualmachineinstances/pause" },
  unpause: { verb: "update", group: SUBRESOURCES, resource: "virtualmachineinstances/unpause" },
  reset: { verb: "update", group: SUBRESOURCES, resource: "virtualmachineinstances/reset" },
  softreboot: {
    verb: "update",
    group: SUBRESOURCES,
    resource: "virtualmachineinstances/softreboot",
  },
  console: { verb: "get", group: SUBRESOURCES, resource: "virtualmachineinstances/console" },
  doctor: { verb: "get", group: SUBRESOURCES, resource: "virtualmachineinstances/doctor" },
  traffic: {
    verb: "get",
    group: SUBRESOURCES,
    resource: "virtualmachineinstances/interfacetraffic",
  },
  screen: { verb: "get", group: SUBRESOURCES, resource: "virtualmachineinstances/vnc" },
} as const satisfies Readonly<Record<string, Right>>;

export type RightName = keyof typeof RIGHTS;

const NIC_RIGHTS = {
  plug: { virtualmachines: "plug", virtualmachineinstances: "plugVmi" },
  pull: { virtualmachines: "pull", virtualmachineinstances: "pullVmi" },
  edit: { virtualmachines: "edit", virtualmachineinstances: "editVmi" },
} as const satisfies Readonly<Record<string, Readonly<Record<string, RightName>>>>;

export function nicRight(
  what: keyof typeof NIC_RIGHTS,
  kind: "virtualmachines" | "virtualmachineinstances",
): RightName {
  return NIC_RIGHTS[what][kind];
}
