// SPDX-License-Identifier: Apache-2.0
// Checks of the nodes: readiness, kernel, devices, clocks, SELinux, the start of a pod, and tenants who can use them up.
import type { Selinux } from "@patchbay/os";
import { type Facts, serverNowMs } from "../facts.ts";
import { ifObserved, ok, warning, wrong, type Finding } from "../finding.ts";
import { names } from "@patchbay/api";
import type { KubeNode, Lease } from "@patchbay/api/kubernetes";
import { parseTime } from "@patchbay/kube";

const SELINUX = "SELinux";

function judge({ mode, hasContainerType }: Selinux): readonly Finding[] {
  if (mode === "off") return [];
  if (!hasContainerType) {
    return [
      wrong(SELINUX, {
        message: `is ${mode}, and its policy has no type container_file_t: VMs cannot use vhost-user sockets`,
        fix: "install the policy of containers: dnf install container-selinux",
      }),
    ];
  }
  const avcHint =
    mode === "enforcing"
      ? "; the dataplane's own policy decides whether launchers may connect to its vhost-user sockets: ausearch -m avc -ts recent"
      : "";
  return [ok(SELINUX, `is ${mode} and has the type container_file_t${avcHint}`)];
}

export function judgeSelinux({ selinux }: Facts): readonly Finding[] {
  return selinux === undefined ? [] : ifObserved(SELINUX, selinux, judge);
}

const POD_START = "start of a pod";

export function judgePodStart({ podTrial }: Facts): readonly Finding[] {
  if (podTrial === undefined) return [];
  return ifObserved(POD_START, podTrial, ({ problem }) => [
    problem === undefined
      ? ok(POD_START, "a pod with the launchers' image and user starts and ends")
      : wrong(POD_START, {
          message: `a pod with the launchers' image and user does not start: ${problem}; no VM starts either`,
          fix: "see the log of node-runtime; for `permission denied`, every user must be able to enter the data directory's parents and to read the unpacked images: run `patchbay down`, `umask 022`, `patchbay up`",
        }),
  ]);
}

/** Oldest supported kernel. Source: docs/install.md */
const MIN_KERNEL = { major: 5, minor: 6 };
/** Time after which a node that does not renew its lease counts as lost, in seconds. Source: Kubernetes node-monitor-grace-period. */
const GRACE_SECONDS = 40;
const AHEAD_MAX_MS = 2_000;

interface NodeProblem {
  readonly message: string;
  readonly fix: string;
}

function hasOldKernel(kernel: string): boolean {
  const [, major = "0", minor = "0"] = /^(\d+)\.(\d+)/.exec(kernel) ?? [];
  const [actual, required] = [
    Number(major) * 1000 + Number(minor),
    MIN_KERNEL.major * 1000 + MIN_KERNEL.minor,
  ];
  return actual < required;
}

function offersNone(node: KubeNode, resource: string): boolean {
  return Number(node.status?.allocatable?.[resource] ?? "0") === 0;
}

export function findReadinessProblems(node: KubeNode): readonly NodeProblem[] {
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status === "True") return [];
  return [
    {
      message: `is not ready: ${ready?.message ?? "its kubelet has not reported"}`,
      fix: `see its kubelet: kubectl describe node ${node.metadata.name}`,
    },
  ];
}

function findPressureProblems(node: KubeNode): readonly NodeProblem[] {
  const conditions = node.status?.conditions ?? [];
  return conditions
    .filter(({ type, status }) => type.endsWith("Pressure") && status === "True")
    .map(({ type, message = "" }) => ({
      message: `has ${type}: ${message}`,
      fix: `free the resource: kubectl describe node ${node.metadata.name} lists the pods that use it`,
    }));
}

/** Returns whether nodes must offer /dev/net/tun and /dev/kvm. Returns false only if a cluster lacks virt-handler, which offers them. */
function offersDevices({ daemonSets, processes }: Facts): boolean {
  if (processes !== undefined || "failure" in daemonSets) return true;
  return daemonSets.value.some(({ metadata }) => metadata.name === "virt-handler");
}

export function findVersionProblems(node: KubeNode): readonly NodeProblem[] {
  const { kernelVersion = "", containerRuntimeVersion = "" } = node.status?.nodeInfo ?? {};
  const problems: NodeProblem[] = [];
  if (hasOldKernel(kernelVersion)) {
    const oldest = `${String(MIN_KERNEL.major)}.${String(MIN_KERNEL.minor)}`;
    const fix = `upgrade it to Linux ${oldest} or later`;
    problems.push({ message: `has Linux ${kernelVersion}, older than ${oldest}`, fix });
  }
  if (!/^(containerd|cri-o):/.test(containerRuntimeVersion)) {
    const fix =
      "containerd and CRI-O are supported; name the socket of another runtime by --cri-endpoint";
    problems.push({ message: `has the container runtime ${containerRuntimeVersion}`, fix });
  }
  return problems;
}

function findDeviceProblems(node: KubeNode, facts: Facts): readonly NodeProblem[] {
  if (!offersDevices(facts)) return [];
  const problems: NodeProblem[] = [];
  if (offersNone(node, names.TUN_RESOURCE)) {
    const fix = "load the module: modprobe tun; virt-handler offers the device then";
    problems.push({ message: "offers no /dev/net/tun: no launcher is started there", fix });
  }
  if (!facts.useEmulation && offersNone(node, names.KVM_RESOURCE)) {
    const fix =
      "load the module: modprobe kvm_intel or kvm_amd; or emulate guests: developerConfiguration.useEmulation of the KubeVirt object";
    problems.push({ message: "offers no /dev/kvm: no guest is started there", fix });
  }
  return problems;
}

/** Finds missing resources that a dataplane in a pod requires. A standalone machine's dataplane runs outside of pods and requires none. */
function findSocketProblems(node: KubeNode, facts: Facts): readonly NodeProblem[] {
  if (!facts.offersDataplane || facts.processes !== undefined) return [];
  const fix = `see the log of virt-handler there: kubectl -n ${names.SERVICES_NAMESPACE} get pods -o wide; where SELinux is on, the node needs the package container-selinux`;
  return [names.VHOST_USER_RESOURCE, names.VHOST_USER_DATAPLANE_RESOURCE]
    .filter((resource) => offersNone(node, resource))
    .map((resource) => ({ message: `offers no ${resource}, and VhostUserDataplane is on`, fix }));
}

/** Compares the renewal time in the node's lease with the server's clock. An old time means a slow clock, because the node is ready. */
function findClockProblems(lease: Lease | undefined, nowMs: number): readonly NodeProblem[] {
  if (lease?.spec?.renewTime === undefined) return [];
  const aheadMs = parseTime(lease.spec.renewTime) - nowMs;
  const seconds = String(Math.round(Math.abs(aheadMs) / 1000));
  const fix = "set its clock by NTP: timedatectl set-ntp true";
  // The limit is one second longer, because the server reports whole seconds.
  if (aheadMs > AHEAD_MAX_MS + 1_000) {
    return [{ message: `has a clock that is ${seconds} s ahead of the API server's`, fix }];
  }
  const isBehind = -aheadMs > GRACE_SECONDS * 1_000;
  return isBehind
    ? [{ message: `has a clock that is ${seconds} s behind the API server's`, fix }]
    : [];
}

function printKvm(node: KubeNode, facts: Facts): string {
  if (facts.useEmulation) {
    return "guests are emulated in software (useEmulation of the KubeVirt object is set), not run by KVM";
  }
  return offersDevices(facts) ? "with /dev/kvm" : "its devices are known once virt-handler runs";
}

function describe(node: KubeNode, facts: Facts): string {
  const { kernelVersion = "", containerRuntimeVersion = "" } = node.status?.nodeInfo ?? {};
  const cordonedNote = node.spec?.unschedulable === true ? ", takes no new pods (cordoned)" : "";
  return `is ready: Linux ${kernelVersion}, ${containerRuntimeVersion}, ${printKvm(node, facts)}${cordonedNote}`;
}

function judgeNode(node: KubeNode, facts: Facts): readonly Finding[] {
  const { name } = node.metadata;
  const check = `node ${name}`;
  const leases = "value" in facts.nodeLeases ? facts.nodeLeases.value : [];
  const lease = leases.find(({ metadata }) => metadata.name === name);
  const readiness = findReadinessProblems(node);
  const problems = [
    ...readiness,
    ...findPressureProblems(node),
    ...findVersionProblems(node),
    ...findDeviceProblems(node, facts),
    ...findSocketProblems(node, facts),
    // A node that is not ready can fail to renew its lease, so its old lease does not show that its clock is slow.
    ...(readiness.length === 0 ? findClockProblems(lease, serverNowMs(facts)) : []),
  ];
  return problems.length === 0
    ? [ok(check, describe(node, facts))]
    : problems.map((problem) => wrong(check, problem));
}

export function judgeNodes(facts: Facts): readonly Finding[] {
  return ifObserved("nodes", facts.nodes, (value) =>
    value.length === 0
      ? [
          wrong("nodes", {
            message: "there is none",
            fix: "add a node; on a standalone machine: patchbay up",
          }),
        ]
      : value.flatMap((node) => judgeNode(node, facts)),
  );
}

export function judgeTenants({ unlimitedTenants }: Facts): readonly Finding[] {
  return ifObserved("quotas", unlimitedTenants, (namespaces) =>
    namespaces.map((namespace) =>
      warning(
        `namespace ${namespace}`,
        `its users can use up the nodes, because it has no ResourceQuota: patchbay create namespace ${namespace} --existing`,
      ),
    ),
  );
}
