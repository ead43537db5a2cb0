// SPDX-License-Identifier: Apache-2.0
// DataVolumes: claims with what fills them. Source: CDI cdi.kubevirt.io/v1beta1. Where CDI serves them, their specification is not
// read; a standalone machine reads it itself.
import { Type } from "../../fields/schema.ts";
import { anything, harmless, text } from "../../fields/notation.ts";
import type { Condition, KubeObject } from "../kubernetes/meta.ts";

/** How far a DataVolume is. Source: CDI DataVolumeStatus. */
export interface DataVolumeStatus {
  readonly claimName?: string;
  readonly phase?: string;
  readonly progress?: string;
  readonly conditions?: readonly Condition[];
}

/** Made for a VM, and for its users; CDI, or the node of a standalone machine, makes the claim of its name. */
export interface DataVolume extends KubeObject {
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status?: DataVolumeStatus;
}

/** What a template says of its DataVolume. */
export interface TemplateMetadata {
  readonly name?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Of `spec.dataVolumeTemplates` of a VM. */
export const DataVolumeTemplateSchema = Type.Object(
  {
    apiVersion: harmless(text("API version.")),
    kind: harmless(text("Kind.")),
    metadata: Type.Optional(
      Type.Unsafe<TemplateMetadata>(
        anything("Name, labels and annotations of the DataVolume, which is in the VM's namespace."),
      ),
    ),
    spec: Type.Unsafe<Readonly<Record<string, unknown>>>(anything("What it is made of.")),
    status: harmless(anything("Not used.")),
  },
  { description: "One template." },
);
