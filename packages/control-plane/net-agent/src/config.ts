// SPDX-License-Identifier: Apache-2.0
import {
  POLICY_FIELD_NAMES,
  POLICY_FIELDS,
  printFallback,
  validatePolicyList,
  type ClusterTenantPolicy,
  type PolicyFieldName,
} from "@patchbay/api";
import { InvalidArgumentError, Option, Command } from "commander";
import { hostname } from "node:os";
import type { AgentMode } from "@patchbay/core/nics";
import {
  addCommonFlags,
  addCriFlags,
  addHostFlags,
  type CommonFlags,
  type CriFlags,
  type HostFlags,
} from "@patchbay/daemon";
import type { PolicyMode } from "./policy.ts";

function parseListOf(name: PolicyFieldName): (text: string) => readonly string[] {
  return (text) => {
    const entries = text
      .split(",")
      .map((part) => part.trim())
      .filter((part) => part !== "");
    const [cause] = validatePolicyList(name, entries, POLICY_FIELDS[name].flag);
    if (cause === undefined) return entries;
    throw new InvalidArgumentError(`${cause.message}.`);
  };
}

function buildOption(name: PolicyFieldName): Option {
  const { flag, entries, description } = POLICY_FIELDS[name];
  return new Option(`${flag} <${entries}>`, description)
    .argParser(parseListOf(name))
    .default(undefined, `the KubeVirt object's, else ${printFallback(name, ",")}`);
}

export function addPolicyFlags(command: Command): Command {
  for (const name of POLICY_FIELD_NAMES) command.addOption(buildOption(name));
  return command;
}

export function parsePolicyLists(command: Command): ClusterTenantPolicy {
  const entries = POLICY_FIELD_NAMES.flatMap((name) => {
    const list = command.getOptionValue(buildOption(name).attributeName()) as
      | readonly string[]
      | undefined;
    return list === undefined ? [] : [[name, list] as const];
  });
  return Object.fromEntries(entries);
}

export interface Flags extends CommonFlags, HostFlags, CriFlags {
  readonly nodeName: string;
  readonly mode: AgentMode;
  readonly stateDir: string;
  readonly cniBinDir: readonly string[];
  /** Directory of CNI configuration files, for NetworkAttachmentDefinitions that have no `spec.config`. */
  readonly definitionDir: string;
  /** Directories whose subdirectories `results` contain the CNI results that container runtimes recorded. */
  readonly cniCacheDir: readonly string[];
  readonly multusDir: string;
  /** Absolute path of the kubelet's pod-resources socket; `none` if the node has no device plugins. */
  readonly podResourcesSocket: string;
  /** Directory of device information files: device plugins write to its subdirectory `dp`, and CNI plugins to `cni`. */
  readonly deviceInfoDir: string;
  /** Whether a pod may use only networks in its own namespace, networks in namespace `default`, and networks to which its VMI refers. */
  readonly namespaceIsolation: boolean;
  readonly ownBridge: readonly string[];
  /** Tenant policy from flags. Fields without a flag are unset. */
  readonly tenantPolicy: ClusterTenantPolicy;
  /** Whether networks that violate the policy are rejected or cause a warning. `auto` selects the warning if Multus attaches networks. */
  readonly tenantPolicyMode: PolicyMode;
  /** Path of the socket for the container runtime's CNI plugin; unset if the agent does not serve the runtime. */
  readonly cniSocket?: string;
  /** Default network of pods: a file, a directory, a network name, or `none` if the runtime attaches it. Unused without `cniSocket`. */
  readonly defaultNetwork: string;
  readonly runtimeConfigDir: string;
  /** Plugin directory of the container runtime, to which patchbay-cni is copied; unset to install no plugin. */
  readonly installPlugin?: string;
  /** NAMESPACE/NAME of the agent's own pod; unset outside a cluster. */
  readonly ownPod?: string;
  readonly concurrency: number;
}

const MODES: readonly AgentMode[] = ["alone", "multus", "multus-dynamic"];
/** Default directories of CNI plugins. Source: containerd, CRI-O, and Debian's package containernetworking-plugins. */
const BIN_DIRS: readonly string[] = ["/opt/cni/bin", "/usr/lib/cni"];
/** Default directory of definition files. Source: Multus, confDir. */
const DEFINITION_DIR = "/etc/cni/multus/net.d";
/** Default directory of Multus' records. Source: Multus, cniDir. */
const MULTUS_DIR = "/var/lib/cni/multus";
/** Default directories of CNI results. Source: Multus, cniDir; CNI libcni, CacheDir. */
const CACHE_DIRS: readonly string[] = [MULTUS_DIR, "/var/lib/cni"];

/** Default socket of the kubelet. Source: kubelet podresources, DefaultSocketPath. */
const POD_RESOURCES_SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock";
/** Default directory of device information. Source: NPWG device information 1.1.0 section 4. */
const DEVICE_INFO_DIR = "/var/run/k8s.cni.cncf.io/devinfo";

function parseCount(text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= 1) return count;
  throw new InvalidArgumentError("It must be a whole number from 1.");
}

function parsePath(text: string): string {
  if (text.startsWith("/")) return text;
  throw new InvalidArgumentError("It must be an absolute path.");
}

/** Adds a directory to the list. The first directory replaces the default directories. */
function collectDirectory(value: string, previous: readonly string[]): readonly string[] {
  return previous === BIN_DIRS || previous === CACHE_DIRS ? [value] : [...previous, value];
}

function addRuntimeFlags(command: Command): Command {
  return command
    .option(
      "--cni-socket <path>",
      "serve the container runtime's CNI plugin, patchbay-cni, at this unix socket: net-agent then attaches the default network and those of the annotation when a pod is created, in place of Multus",
      parsePath,
    )
    .option(
      "--default-network <file-or-name>",
      "default network of all pods, with --cni-socket: a file (.conf, .conflist, .json), a directory whose first configuration is used, the name of a network in --runtime-config-dir, or none if the runtime calls the agent only for pods that name their own; read for each pod",
      "/etc/cni/net.d",
    )
    .option(
      "--runtime-config-dir <dir>",
      "the container runtime's directory of CNI configurations; --default-network reads it and --install-plugin writes to it; files for definitions are in --definition-dir",
      parsePath,
      "/etc/cni/net.d",
    )
    .option(
      "--install-plugin <dir>",
      "copy patchbay-cni to this plugin directory of the container runtime, and write 00-patchbay.conflist to --runtime-config-dir so that the runtime calls it",
      parsePath,
    )
    .option(
      "--own-pod <namespace/name>",
      "pod that this agent runs in; if it ends with the annotation patchbay.io/leave-runtime, the agent removes what --install-plugin created",
    );
}

function addDeviceFlags(command: Command): Command {
  return command
    .option(
      "--pod-resources-socket <path>",
      "the kubelet's pod-resources socket, queried for the device of an attachment if its definition has the annotation k8s.v1.cni.cncf.io/resourceName or its element a deviceID; none if the node has no device plugins",
      (text) => (text === "none" ? text : parsePath(text)),
      POD_RESOURCES_SOCKET,
    )
    .option(
      "--device-info-dir <dir>",
      "directory in which device plugins (dp) and CNI plugins (cni) write device information",
      parsePath,
      DEVICE_INFO_DIR,
    );
}

function addDirectoryFlags(command: Command): Command {
  return command
    .option(
      "--cni-bin-dir <dir>",
      "directory of CNI plugins; may be repeated",
      collectDirectory,
      BIN_DIRS,
    )
    .option(
      "--definition-dir <dir>",
      "directory with the configurations of definitions without spec.config: the first .conf, .json or .conflist file with the definition's name is used; the container runtime's own directory is --runtime-config-dir",
      DEFINITION_DIR,
    )
    .option(
      "--cni-cache-dir <dir>",
      "directory in which a container runtime records its attachments; may be repeated",
      collectDirectory,
      CACHE_DIRS,
    )
    .option(
      "--multus-dir <dir>",
      "directory in which Multus records its attachments; those that it left behind for deleted pods are released, unless the mode is alone",
      MULTUS_DIR,
    );
}

export function parseFlags(argv: readonly string[]): Flags {
  const command = addCriFlags(addHostFlags(addCommonFlags(new Command("net-agent"))))
    .description("Attaches networks to the running pods of one node and detaches them.")
    .option("--node-name <name>", "node that this agent runs on", hostname())
    .addOption(
      new Option(
        "--mode <mode>",
        "which other components attach networks: none (alone), Multus at pod creation (multus), or Multus and its dynamic networks controller (multus-dynamic); multus also works without Multus",
      )
        .choices(MODES)
        .default("multus" satisfies AgentMode),
    )
    .option(
      "--state-dir <dir>",
      "directory for state that must survive a restart: the journal",
      "/var/lib/net-agent",
    )
    .option(
      "--no-namespace-isolation",
      "let pods use networks of every namespace, not only of their own and of default",
    )
    .option(
      "--own-bridge <name>",
      "bridge that belongs to the node even if all its ports are pods'; may be repeated",
      (name: string, previous: readonly string[]) => [...previous, name],
      [],
    )
    .addOption(
      new Option(
        "--tenant-policy-mode <mode>",
        "handling of tenants' definitions that violate the policy: enforce rejects them, warn attaches and reports them; auto enforces in mode alone and with --cni-socket, and warns beside Multus, which attaches them anyway",
      )
        .choices(["auto", "warn", "enforce"] satisfies PolicyMode[])
        .default("auto" satisfies PolicyMode),
    )
    .option("--concurrency <count>", "number of pods reconciled at a time", parseCount, 16)
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
  const flags = addDeviceFlags(addRuntimeFlags(addDirectoryFlags(command)));
  addPolicyFlags(flags).parse([...argv]);
  return {
    ...command.opts<Omit<Flags, "tenantPolicy">>(),
    tenantPolicy: parsePolicyLists(command),
  };
}
