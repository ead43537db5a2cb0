// SPDX-License-Identifier: Apache-2.0
// Where a VM runs, and who gets in: not acted on. Source: KubeVirt api/core/v1 types.go.
import {
  anything,
  harmless,
  integer,
  list,
  object,
  oneOf,
  text,
  unbuilt,
  type JsonSchema,
} from "./notation.ts";

const agentUsers = object(
  "Set by the guest's agent.",
  { users: list("Users that get them.", text("Name of a user.")) },
  ["users"],
);

function secretSource(what: string): JsonSchema {
  return object(what, {
    secret: object("A Secret.", { secretName: text("Name of the Secret.") }, ["secretName"]),
  });
}

const CREDENTIAL = object("One credential.", {
  sshPublicKey: object(
    "SSH keys.",
    {
      source: secretSource("Where the keys are."),
      propagationMethod: object("How they get into the guest.", {
        configDrive: object("By cloud-init's config drive."),
        noCloud: object("By cloud-init's NoCloud."),
        qemuGuestAgent: agentUsers,
      }),
    },
    ["source", "propagationMethod"],
  ),
  userPassword: object(
    "Passwords.",
    {
      source: secretSource("Where the passwords are."),
      propagationMethod: object("How they get into the guest.", {
        qemuGuestAgent: object("Set by the guest's agent."),
      }),
    },
    ["source", "propagationMethod"],
  ),
});

/** Of `spec` of a VMI: what is not acted on of the pod around the guest. */
export const POD_FIELDS = {
  accessCredentials: unbuilt(list("Keys and passwords for the guest.", CREDENTIAL)),
  architecture: unbuilt(text("Processor architecture of the guest."), {
    unless: oneOf("", "amd64"),
  }),
  resourceClaims: unbuilt(
    list(
      "Claims for devices.",
      object(
        "One claim.",
        {
          name: text("Name within the VM."),
          resourceClaimName: text("A claim that is there."),
          resourceClaimTemplateName: text("A template of which a claim is made."),
        },
        ["name"],
      ),
    ),
  ),
  serviceAccountName: harmless(text("Account of the pod; the launcher has none.")),
};

/** Of a network, beside the ways to join one that are built. */
export const NETWORK_FIELDS = {
  resourceClaim: unbuilt(
    object("A network device of a claim.", {
      claimName: text("Claim in spec.resourceClaims."),
      requestName: text("Request in that claim."),
    }),
  ),
};

/** Of `spec` of a VM, beside the template and when it runs. */
export const VM_FIELDS = {
  updateVolumesStrategy: harmless(text("How changed volumes are taken over.")),
};

/** Of the metadata of a template, beside labels and annotations. */
export const TEMPLATE_METADATA_FIELDS = {
  name: harmless(text("Not used: a VMI has the name of its VM.")),
  generateName: harmless(text("Not used: a VMI has the name of its VM.")),
  namespace: harmless(text("Not used: a VMI is in the namespace of its VM.")),
  creationTimestamp: harmless({ ...text("Not used."), nullable: true }),
  finalizers: harmless(list("Not used.", text("A finalizer."))),
  uid: harmless(text("Not used.")),
  resourceVersion: harmless(text("Not used.")),
  generation: harmless(integer("Not used.")),
  managedFields: harmless(list("Not used.", anything("One manager."))),
  ownerReferences: harmless(list("Not used.", anything("One owner."))),
  deletionTimestamp: harmless({ ...text("Not used."), nullable: true }),
  selfLink: harmless(text("Not used.")),
};
