// SPDX-License-Identifier: Apache-2.0
// What does an API server need to know of network definitions?

/** The definition of NetworkAttachmentDefinition, as far as it is needed. */
export const NAD_DEFINITION = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "network-attachment-definitions.k8s.cni.cncf.io" },
  spec: {
    group: "k8s.cni.cncf.io",
    scope: "Namespaced",
    names: { plural: "network-attachment-definitions", kind: "NetworkAttachmentDefinition" },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: "object",
            properties: {
              spec: { type: "object", properties: { config: { type: "string" } } },
            },
          },
        },
      },
    ],
  },
};
