// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import type { ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

/** Directory of plugins, below the kubelet's directory. Source: kubelet deviceplugin v1beta1 DevicePluginPath */
export const DEVICE_PLUGIN_DIRECTORY = "device-plugins";
/** File name of kubelet's socket. Source: kubelet deviceplugin v1beta1 constants, KubeletSocket */
export const KUBELET_SOCKET = "kubelet.sock";
/** Source: kubelet deviceplugin v1beta1 constants, Version */
export const API_VERSION = "v1beta1";

/** Source: kubelet deviceplugin v1beta1 RegisterRequest */
export interface RegisterRequest {
  readonly version: string;
  /** File name of the plugin's socket, which is in the same directory as the kubelet's socket. */
  readonly endpoint: string;
  readonly resourceName: string;
  readonly options: PluginOptions;
}

export interface PluginOptions {
  readonly preStartRequired: boolean;
  readonly getPreferredAllocationAvailable: boolean;
}

export interface DeviceState {
  /** Unique ID of the device, at most 63 characters. */
  readonly ID: string;
  readonly health: "Healthy" | "Unhealthy";
}

export interface AllocateRequest {
  readonly containerRequests: readonly { readonly devicesIds: readonly string[] }[];
}

export interface DeviceSpec {
  readonly containerPath: string;
  readonly hostPath: string;
  /** Combination of `r` (read), `w` (write) and `m` (create device node). */
  readonly permissions: string;
}

export interface Mount {
  readonly containerPath: string;
  readonly hostPath: string;
  readonly readOnly: boolean;
}

export interface ContainerAllocation {
  readonly devices: readonly DeviceSpec[];
  readonly mounts: readonly Mount[];
}

export interface AllocateResponse {
  readonly containerResponses: readonly ContainerAllocation[];
}

export interface DevicePluginServices {
  readonly registration: ServiceDefinition;
  readonly devicePlugin: ServiceDefinition;
}

export function loadServices(): DevicePluginServices {
  const path = fileURLToPath(new URL("../proto/device-plugin.proto", import.meta.url));
  const loaded = loadSync(path, { enums: String, defaults: true });
  const [registration, devicePlugin] = ["v1beta1.Registration", "v1beta1.DevicePlugin"].map(
    (name) => loaded[name] as ServiceDefinition, // services, by their names
  );
  if (registration === undefined || devicePlugin === undefined) throw new Error("no services");
  return { registration, devicePlugin };
}
