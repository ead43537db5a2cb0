// SPDX-License-Identifier: Apache-2.0

export interface KubeconfigContent {
  /** URL of the API server, for example `https://127.0.0.1:6443`. */
  readonly server: string;
  readonly caPem: string;
  readonly certPem: string;
  readonly keyPem: string;
  /** Name of the user's entry. The API server ignores it, and reads the user's name from the certificate. */
  readonly user: string;
  readonly cluster?: string;
}

/** Builds a kubeconfig as JSON, a subset of YAML. Callers must write it to a file with mode 0600, because it contains a secret key. */
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
