// SPDX-License-Identifier: Apache-2.0
// Words of the device plugin API, and its .proto as services.
import { fileURLToPath } from "node:url";
import type { ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

/** Below the kubelet's directory: its socket, and those of all plugins. Source: kubelet deviceplugin v1beta1 constants, DevicePluginPath. */
export const DEVICE_PLUGIN_DIRECTORY = "device-plugins";
/** Source: kubelet deviceplugin v1beta1 constants, KubeletSocket. */
export const KUBELET_SOCKET = "kubelet.sock";
/** Source: kubelet deviceplugin v1beta1 constants, Version. */
export const API_VERSION = "v1beta1";

/** Source: kubelet deviceplugin v1beta1 RegisterRequest. */
export interface RegisterRequest {
  readonly version: string;
  /** Name of the plugin's socket beside the kubelet's. */
  readonly endpoint: string;
  readonly resourceName: string;
  readonly options: PluginOptions;
}

/** Source: kubelet deviceplugin v1beta1 DevicePluginOptions. */
export interface PluginOptions {
  readonly preStartRequired: boolean;
  readonly getPreferredAllocationAvailable: boolean;
}

/** Source: kubelet deviceplugin v1beta1 Device. */
export interface DeviceState {
  /** At most 63 characters. */
  readonly ID: string;
  readonly health: "Healthy" | "Unhealthy";
}

/** Source: kubelet deviceplugin v1beta1 AllocateRequest. */
export interface AllocateRequest {
  readonly containerRequests: readonly { readonly devicesIds: readonly string[] }[];
}

/** Source: kubelet deviceplugin v1beta1 DeviceSpec. */
export interface DeviceSpec {
  readonly containerPath: string;
  readonly hostPath: string;
  /** Of `r`, `w`, `m`. */
  readonly permissions: string;
}

/** Source: kubelet deviceplugin v1beta1 Mount. */
export interface Mount {
  readonly containerPath: string;
  readonly hostPath: string;
  readonly readOnly: boolean;
}

/** Source: kubelet deviceplugin v1beta1 ContainerAllocateResponse. */
export interface ContainerAllocation {
  readonly devices: readonly DeviceSpec[];
  readonly mounts: readonly Mount[];
}

/** Source: kubelet deviceplugin v1beta1 AllocateResponse. */
export interface AllocateResponse {
  readonly containerResponses: readonly ContainerAllocation[];
}

/** The services of `../proto/device-plugin.proto`. */
export interface DevicePluginServices {
  readonly registration: ServiceDefinition;
  readonly devicePlugin: ServiceDefinition;
}

/** Reads the .proto. */
export function loadServices(): DevicePluginServices {
  const path = fileURLToPath(new URL("../proto/device-plugin.proto", import.meta.url));
  const loaded = loadSync(path, { enums: String, defaults: true });
  const [registration, devicePlugin] = ["v1beta1.Registration", "v1beta1.DevicePlugin"].map(
    (name) => loaded[name] as ServiceDefinition, // by their names services
  );
  if (registration === undefined || devicePlugin === undefined) throw new Error("no services");
  return { registration, devicePlugin };
}
