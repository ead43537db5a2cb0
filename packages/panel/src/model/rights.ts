// SPDX-License-Identifier: Apache-2.0
// What may the user do in a namespace? As the API server's review of rules says it. Pure.

/** A rule. Source: Kubernetes authorization.k8s.io/v1 ResourceRule */
export interface Rule {
  readonly verbs?: readonly string[];
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
}

/** Rules of one namespace; `incomplete`: there may be more that the server cannot tell. */
export interface Rules {
  readonly resourceRules?: readonly Rule[];
  readonly incomplete?: boolean;
}

/** What is done to what. */
export interface Right {
  readonly verb: string;
  readonly group: string;
  /** Plural, with its subresource. */
  readonly resource: string;
}

function names(list: readonly string[] | undefined, value: string): boolean {
  return (list ?? []).some((each) => each === "*" || each === value);
}

function namesResource(list: readonly string[] | undefined, resource: string): boolean {
  const [, subresource] = resource.split("/");
  const any = subresource === undefined ? "*" : `*/${subresource}`;
  return names(list, resource) || (list ?? []).includes(any);
}

/** Whether it is allowed, as far as is known: what cannot be told is tried, and the server refuses it where it must. */
export function may({ resourceRules = [], incomplete = false }: Rules, right: Right): boolean {
  const isAllowed = resourceRules.some(
    (rule) =>
      names(rule.verbs, right.verb) &&
      names(rule.apiGroups, right.group) &&
      namesResource(rule.resources, right.resource),
  );
  return isAllowed || incomplete;
}

const SUBRESOURCES = "subresources.kubevirt.io";
const KUBEVIRT = "kubevirt.io";

/** What the panel offers, by name. */
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
  console: { verb: "get", group: SUBRESOURCES, resource: "virtualmachineinstances/console" },
  doctor: { verb: "get", group: SUBRESOURCES, resource: "virtualmachineinstances/doctor" },
  traffic: {
    verb: "get",
    group: SUBRESOURCES,
    resource: "virtualmachineinstances/interfacetraffic",
  },
  screen: { verb: "get", group: SUBRESOURCES, resource: "virtualmachineinstances/vnc" },
} as const satisfies Readonly<Record<string, Right>>;

/** One of them. */
export type RightName = keyof typeof RIGHTS;

/** What is done with NICs, and which right that takes with a VM, and with a VMI that has none. */
const OF_NICS = {
  plug: { virtualmachines: "plug", virtualmachineinstances: "plugVmi" },
  pull: { virtualmachines: "pull", virtualmachineinstances: "pullVmi" },
  edit: { virtualmachines: "edit", virtualmachineinstances: "editVmi" },
} as const satisfies Readonly<Record<string, Readonly<Record<string, RightName>>>>;

/** The right that something takes. */
export function nicRight(
  what: keyof typeof OF_NICS,
  kind: "virtualmachines" | "virtualmachineinstances",
): RightName {
  return OF_NICS[what][kind];
}
