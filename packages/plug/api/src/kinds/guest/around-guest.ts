// SPDX-License-Identifier: Apache-2.0
// What a VMI says of the pod around its guest, which is passed on to the pod. Source: KubeVirt api/core/v1 types.go.
import { Type } from "../../fields/schema.ts";
import { anything, integer, list, object, text } from "../../fields/notation.ts";

/** An object of Kubernetes' own that is passed on without a look. */
type Whole = Readonly<Record<string, unknown>>;

/** Source: Kubernetes Toleration. */
const TOLERATION = object("One toleration.", {
  key: text("Key of the taint."),
  operator: text("Exists or Equal."),
  value: text("Value of the taint."),
  effect: text("NoSchedule, PreferNoSchedule or NoExecute."),
  tolerationSeconds: integer("Seconds for which NoExecute is tolerated."),
});

/** DNS settings of a pod. Source: Kubernetes PodDNSConfig. */
export interface DnsConfig {
  readonly nameservers?: readonly string[];
  readonly searches?: readonly string[];
  readonly options?: readonly { readonly name?: string; readonly value?: string }[];
}

const DNS_CONFIG = object("DNS settings of the pod.", {
  nameservers: list("Servers.", text("Address.")),
  searches: list("Domains that are searched.", text("Domain.")),
  options: list(
    "Options of the resolver.",
    object("One option.", { name: text("Name."), value: text("Value.") }),
  ),
});

/** Of `spec` of a VMI. */
export const AROUND_GUEST = {
  affinity: Type.Optional(Type.Unsafe<Whole>(anything("Which nodes and neighbours the VM wants."))),
  dnsConfig: Type.Optional(Type.Unsafe<DnsConfig>(DNS_CONFIG)),
  dnsPolicy: Type.Optional(Type.Unsafe<string>(text("DNS policy of the pod."))),
  hostname: Type.Optional(
    Type.Unsafe<string>(
      text("Name of the guest, by cloud-init, and of the pod; the VM's name when absent."),
    ),
  ),
  priorityClassName: Type.Optional(Type.Unsafe<string>(text("Priority of the pod."))),
  schedulerName: Type.Optional(Type.Unsafe<string>(text("Scheduler of the pod."))),
  subdomain: Type.Optional(Type.Unsafe<string>(text("Domain of the host name."))),
  tolerations: Type.Optional(
    Type.Unsafe<readonly Whole[]>(
      list("Taints of nodes that do not keep the VM away.", TOLERATION),
    ),
  ),
  topologySpreadConstraints: Type.Optional(
    Type.Unsafe<readonly Whole[]>(
      list("How VMs are spread over nodes.", anything("One constraint.")),
    ),
  ),
};
