// SPDX-License-Identifier: Apache-2.0
// What a preference makes of NICs, whether the guest starts with them or gets them later. Source: KubeVirt
// pkg/instancetype/preference/apply/interface.go.
import { bindingsOf, type Iface, type Network, type PreferenceSpec } from "@patchbay/api";
import { findByName } from "../../spec/nics.ts";
import { isUnsaid } from "./said.ts";

type Devices = NonNullable<PreferenceSpec["devices"]>;

function isOpenOnPodNetwork(iface: Iface, networks: readonly Network[]): boolean {
  return bindingsOf(iface).length === 0 && findByName(networks, iface.name)?.pod !== undefined;
}

/** An iface that does not say its model, or how it is bound to the pod's network, is as the preference says. */
export function preferredIface(
  iface: Iface,
  networks: readonly Network[],
  { preferredInterfaceModel = "", preferredInterfaceMasquerade }: Devices,
): Iface {
  const takesModel = preferredInterfaceModel !== "" && isUnsaid(iface.model);
  const takesBinding =
    preferredInterfaceMasquerade !== undefined && isOpenOnPodNetwork(iface, networks);
  return {
    ...iface,
    ...(takesModel ? { model: preferredInterfaceModel } : {}),
    ...(takesBinding ? { masquerade: preferredInterfaceMasquerade } : {}),
  };
}
