// SPDX-License-Identifier: Apache-2.0
// Which default network does a pod get: every pod's, or the one that its annotation names? Source: Multus, k8sclient
// tryLoadK8sPodDefaultNetwork.
import { names, parseNetworks, type NetworkSelection } from "@patchbay/api";
import type { PluginCall } from "@patchbay/cni";
import { AppError, type WantedAttachment } from "@patchbay/core";
import type { AttachmentRequest } from "@patchbay/core/ports";
import { assertAskedIsGiven } from "../reconcilers/pod/attachment/attach.ts";
import type { DefaultNetwork } from "../reconcilers/pod/attachment/attach-default.ts";
import { sandboxOf } from "../reconcilers/pod/attachment/netns.ts";
import { withDeviceOf } from "../reconcilers/pod/attachment/of-node/device.ts";
import { assertAllowed, assertNotOwn } from "../reconcilers/pod/attachment/policy.ts";
import { requestOf } from "../reconcilers/pod/attachment/request.ts";
import { assertMayUse } from "../reconcilers/pod/launcher.ts";
import type { PodFacts } from "../reconcilers/pod/observe.ts";
import type { RuntimeDeps } from "./deps.ts";

/** Where definitions of default networks are unless another namespace is named: an administrator's. Source: Multus multusNamespace. */
const NAMESPACE = "kube-system";
const IGNORE_UNKNOWN = "IgnoreUnknown";

/** Plugins fail on arguments that they do not know, unless they are told not to. Source: CNI pkg/types, CommonArgs. */
function argsOf({ args }: PluginCall): AttachmentRequest["args"] {
  return args.some(([key]) => key === IGNORE_UNKNOWN) ? args : [[IGNORE_UNKNOWN, "1"], ...args];
}

async function everyPods(
  { interfaceName, ...call }: PluginCall,
  facts: PodFacts,
  deps: RuntimeDeps,
): Promise<DefaultNetwork> {
  const config = await deps.readDefaultNetwork();
  const network = config.name;
  assertNotOwn(network, config);
  const { id: containerId, netnsPath } = sandboxOf(facts);
  return {
    network,
    request: {
      containerId,
      netnsPath,
      interfaceName,
      config,
      args: argsOf({ interfaceName, ...call }),
      capabilityArgs: call.runtimeConfig,
    },
  };
}

function refuse({ key: pod }: PodFacts, reason: string): never {
  const annotation = names.DEFAULT_NETWORK_ANNOTATION;
  throw new AppError("CNI_OWN_DEFAULT_INVALID", { annotation, pod, reason });
}

/** The one element of the annotation. */
function elementOf(text: string, facts: PodFacts): NetworkSelection {
  const parsed = parseNetworks(text);
  if (!parsed.ok) return refuse(facts, parsed.reason);
  const [element, ...others] = parsed.elements;
  if (element === undefined) return refuse(facts, "it names no network");
  if (others.length > 0) return refuse(facts, "it names more than one network");
  return element;
}

/** A runtime looks for the NIC that it asked for, and takes the sandbox away where that is not there. */
function wantedOf(
  element: NetworkSelection,
  { interfaceName }: PluginCall,
  facts: PodFacts,
): WantedAttachment {
  const { name, namespace = "", interface: asked = "", "default-route": route } = element;
  if (asked !== "" && asked !== interfaceName) {
    refuse(
      facts,
      `interface ${asked} is not ${interfaceName}, by which the container runtime finds it`,
    );
  }
  if (route !== undefined) {
    refuse(facts, "default-route is for networks beside the default one, which has its own routes");
  }
  const network = `${namespace === "" ? NAMESPACE : namespace}/${name}`;
  return { network, interfaceName, selection: element };
}

/** With what the runtime gives along for every pod's; what the element asks for goes before. */
async function named(
  text: string,
  { call, facts }: { readonly call: PluginCall; readonly facts: PodFacts },
  deps: RuntimeDeps,
): Promise<DefaultNetwork> {
  const wanted = wantedOf(elementOf(text, facts), call, facts);
  const { network } = wanted;
  const sandbox = sandboxOf(facts);
  if (!network.startsWith(`${NAMESPACE}/`)) await assertMayUse(network, facts, deps);
  const asked = await requestOf(wanted, { facts, sandbox }, deps);
  await assertAllowed(network, asked.config, deps);
  const capabilityArgs = { ...call.runtimeConfig, ...asked.capabilityArgs };
  const own = new Set(asked.args.map(([key]) => key));
  const args = [...asked.args, ...call.args.filter(([key]) => !own.has(key))];
  const request = { ...asked, args, capabilityArgs };
  const given = await withDeviceOf(wanted, { facts, sandbox, request }, deps);
  return {
    network,
    ...given,
    check: (result) => assertAskedIsGiven(wanted, { facts, result }, deps),
  };
}

/**
 * The default network of a sandbox that is just being made.
 * @throws AppError with CNI_DEFAULT_NETWORK_MISSING, CNI_OWN_DEFAULT_INVALID, CNI_PLUGIN_CALLS_ITSELF, and with what an
 * attachment that an annotation asks for gives cause to
 */
export function defaultNetworkOf(
  call: PluginCall,
  facts: PodFacts,
  deps: RuntimeDeps,
): Promise<DefaultNetwork> {
  const text = facts.pod?.metadata.annotations?.[names.DEFAULT_NETWORK_ANNOTATION];
  return text === undefined ? everyPods(call, facts, deps) : named(text, { call, facts }, deps);
}
