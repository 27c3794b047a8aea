{{- define "duetime.image" -}}
{{ .root.Values.image.repository }}:{{ .tag | default .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "duetime.selector" -}}
app.kubernetes.io/name: duetime
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "duetime.labels" -}}
{{ include "duetime.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* The settings of one program: those of all, and its own over them. */}}
{{- define "duetime.settings" -}}
{{- toYaml (mergeOverwrite (deepCopy .root.Values.settings) .settings) }}
{{- end }}

{{/* "mysql.host" as DUETIME_MYSQL_HOST, a large number as its digits; secrets as files; then what the user adds. */}}
{{- define "duetime.environment" -}}
{{- range $key, $value := include "duetime.settings" . | fromYaml }}
- name: DUETIME_{{ $key | replace "." "_" | upper }}
  value: {{ ternary (int64 $value) $value (kindIs "float64" $value) | toString | quote }}
{{- end }}
{{- range $key, $_ := .secrets }}
- name: DUETIME_{{ $key | replace "." "_" | upper }}_FILE
  value: /etc/duetime/secrets/{{ $key }}
{{- end }}
{{- with .root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* How the API listens: with a certificate by TLS. The kubelet has no certificate of its own, so where callers must show one, it probes a
     plain port, which the network policy opens to no pod. */}}
{{- define "duetime.api.listens" -}}
{{- $settings := include "duetime.settings" . | fromYaml }}
{{- $tls := .root.Values.api.tls }}
{{- if and $tls.clientCa (not .root.Values.networkPolicy.enabled) }}
{{- fail "api.tls.clientCa needs networkPolicy.enabled: the policy keeps callers from the plain port of the probes" }}
{{- end }}
{{- if and $tls.clientCa (not $tls.secret) }}
{{- fail "api.tls.clientCa needs api.tls.secret" }}
{{- end }}
tls: {{ or $tls.secret (index $settings "http.tls_cert") | not | not }}
probes: {{ ternary "probes" "http" (not (not $tls.clientCa)) }}
{{- end }}

{{- define "duetime.volumes" -}}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range $key, $from := .secrets }}
      - secret:
          name: {{ $from.name | quote }}
          items:
            - {key: {{ $from.key | quote }}, path: {{ $key | quote }}}
      {{- end }}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- if and (eq .component "api") .root.Values.api.tls.secret }}
- name: tls
  secret: {secretName: {{ .root.Values.api.tls.secret | quote }}, defaultMode: 0440}
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "duetime.mounts" -}}
- {name: secrets, mountPath: /etc/duetime/secrets, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if and (eq .component "api") .root.Values.api.tls.secret }}
- {name: tls, mountPath: /etc/duetime/tls, readOnly: true}
{{- end }}
{{- with .root.Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "duetime.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "duetime.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* What any pod of ours says, whatever it runs. */}}
{{- define "duetime.pod" -}}
serviceAccountName: {{ .root.Release.Name }}-duetime
automountServiceAccountToken: false
enableServiceLinks: false # else a Service named duetime-… makes variables DUETIME_…, which the programs refuse
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "duetime.podSecurity" . | nindent 2 }}
volumes: {{- include "duetime.volumes" . | nindent 2 }}
{{- end }}

{{/* of: the values of the component. The pods of a component are spread over each of `spread` as evenly as there is room. */}}
{{- define "duetime.placement" -}}
{{- $selector := include "duetime.selector" . }}
{{- with .of.spread }}
topologySpreadConstraints:
  {{- range . }}
  - maxSkew: 1
    topologyKey: {{ . | quote }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- $selector | nindent 8 }}
  {{- end }}
{{- end }}
{{- with .of.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
