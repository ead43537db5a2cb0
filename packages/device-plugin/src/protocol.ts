// SPDX-License-Identifier: Apache-2.0
// Words of the device plugin API, and its .proto as services.
/** Where a kubelet and its plugins have their sockets, below the kubelet's directory. Source: kubelet deviceplugin v1beta1, constants.go. */
export const DEVICE_PLUGIN_DIRECTORY = "device-plugins";
