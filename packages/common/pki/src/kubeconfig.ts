// SPDX-License-Identifier: Apache-2.0

export interface KubeconfigContent {
  /** For example `https://127.0.0.1:6443`. */
  readonly server: string;
  readonly caPem: string;
  readonly certPem: string;
  readonly keyPem: string;
  /** Name of the entry; the certificate identifies the user. */
  readonly user: string;
  /** Default: `patchbay`. */
  readonly cluster?: string;
}

/** A kubeconfig with one context and embedded certificates, as JSON (a subset of YAML). Contains a secret: use mode 0600. */
export function kubeconfigText(content: KubeconfigContent): string {
  const cluster = content.cluster ?? "patchbay";
  const context = `${content.user}@${cluster}`;
  const kubeconfig = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      {
        name: cluster,
        cluster: {
          server: content.server,
          "certificate-authority-data": Buffer.from(content.caPem).toString("base64"),
        },
      },
    ],
    users: [
      {
        name: content.user,
        user: {
          "client-certificate-data": Buffer.from(content.certPem).toString("base64"),
          "client-key-data": Buffer.from(content.keyPem).toString("base64"),
        },
      },
    ],
    contexts: [{ name: context, context: { cluster, user: content.user } }],
    "current-context": context,
  };
  return `${JSON.stringify(kubeconfig, undefined, 2)}\n`;
}
